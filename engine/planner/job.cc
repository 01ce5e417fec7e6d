#include "engine/planner/job.h"

#include <algorithm>

#include "engine/config/checks.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

/// Figures of the hardware that depend on what is planned.
void require_rates(const Job& job) {
  const DType dtype = job.precision.compute;
  if (job.hardware.peak(dtype) == 0) {
    throw Error("argument",
                "the description of the hardware has no peak rate of products in the dtype of "
                "precision.compute: give it, or measured products of that dtype")
        .with("key", std::string("hardware.device.peak_flops_per_second.") + dtype_name(dtype))
        .with("dtype", dtype_name(dtype))
        .subsystem("engine/planner");
  }
  if (!job.profile.has_fused_attention) return;
  const std::pair<const char*, double> rates[] = {
      {"hardware.attention.forward_efficiency", job.hardware.attention_forward_efficiency},
      {"hardware.attention.backward_efficiency", job.hardware.attention_backward_efficiency}};
  for (const auto& [key, rate] : rates) {
    if (rate > 0) continue;
    throw Error("argument",
                "the description of the hardware lacks the rate of fused attention, which "
                "planner.profile has")
        .with("key", key)
        .with("planner.profile", job.profile.name)
        .subsystem("engine/planner");
  }
}

/// Throws unless collectives and transfers inside (`is_within_node`) or between nodes are given.
void require_level(const Hardware& hardware, bool is_within_node, int64_t world) {
  const TransferLine& transfer = is_within_node ? hardware.node_transfer : hardware.fabric_transfer;
  const bool has_lines =
      std::any_of(hardware.collectives.begin(), hardware.collectives.end(),
                  [&](const CollectiveLine& line) { return (line.nodes == 1) == is_within_node; });
  const bool has_transfer = transfer.bytes_per_second > 0;
  if (has_lines && has_transfer) return;
  if (!is_within_node && !has_lines && !has_transfer) {
    throw Error("argument",
                "the world is larger than the hardware, which is described as a single node")
        .with("world", world)
        .with("hardware.node.devices", hardware.node_devices)
        .with("nearest", hardware.node_devices)
        .subsystem("engine/planner");
  }
  const char* level = is_within_node ? "node" : "fabric";
  throw Error("argument", std::string("the description of the hardware lacks the cost of ") +
                              (has_lines ? "transfers" : "collectives") +
                              (is_within_node ? " inside a node" : " between nodes") +
                              ": measure the links of a world of this size")
      .with("key", has_lines ? "hardware.transfers" : "hardware.collectives")
      .with("level", level)
      .with("world", world)
      .with("hardware.node.devices", hardware.node_devices)
      .subsystem("engine/planner");
}

}  // namespace

Job make_job(const Config& config, int64_t world) {
  if (world < 1) {
    throw Error("argument", "a plan needs a world of at least one rank")
        .with("world", world)
        .with("minimum", 1)
        .subsystem("engine/planner");
  }
  check_model(config);
  check_train(config);
  const PlannerConfig planner = make_planner(config);
  const auto tries = [&](const char* family) {
    return std::find(planner.search.begin(), planner.search.end(), family) != planner.search.end();
  };
  Job job{.model = make_model(config),
          .precision = make_precision(config),
          .train = make_train(config),
          .world = world,
          .save_every = config.get_integer("run.save_every"),
          .evaluate_every = config.get_integer("run.evaluate_every"),
          .evaluate_batches = make_evaluate(config).batches,
          .tokens = planner.tokens,
          .top = planner.top,
          .tries_uneven = tries("uneven"),
          .tries_gpipe = tries("gpipe"),
          .tries_zero3 = tries("zero3"),
          .profile = find_profile(planner.profile),
          .hardware = make_hardware(config)};
  require_rates(job);
  if (std::min(world, job.hardware.node_devices) > 1) require_level(job.hardware, true, world);
  if (world > job.hardware.node_devices) require_level(job.hardware, false, world);
  return job;
}

int64_t compute_bytes(const Job& job) { return dtype_size(job.precision.compute); }

int64_t residual_bytes(const Job& job) { return dtype_size(job.precision.residual); }

int64_t padded_vocabulary(const ModelConfig& model, int64_t tensor) {
  return padded_vocabulary(model.vocab_size, tensor);
}

int64_t micro_batches(const Job& job, const LayoutConfig& layout) {
  return job.train.global_batch / (layout.data * layout.micro_batch);
}

std::vector<int64_t> stage_layers(const ModelConfig& model, const LayoutConfig& layout) {
  if (!layout.stage_layers.empty()) return layout.stage_layers;
  const int64_t stages = layout.pipeline * layout.interleave;
  std::vector<int64_t> counts;
  counts.reserve(static_cast<size_t>(stages));
  for (int64_t stage = 0; stage < stages; ++stage) {
    counts.push_back((stage + 1) * model.layers / stages - stage * model.layers / stages);
  }
  return counts;
}

}  // namespace plait
