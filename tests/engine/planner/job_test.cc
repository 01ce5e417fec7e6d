// Jobs from configurations, and the small rules about layouts that everything in the room shares.
#include "engine/planner/job.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/engine/config/config_samples.h"

using namespace plait;

namespace {

Config small_plan() {
  Config config = small_config();
  config.set("hardware.name", "dgx-a100");
  return config;
}

}  // namespace

TEST_CASE("a job is what a configuration says but for the layout", "[job]") {
  Config config = small_plan();
  config.load_json(R"({"planner": {"tokens": 1e9, "top": 3, "search": ["zero3", "uneven"]},
    "run": {"save_every": 50, "evaluate_every": 20}, "evaluate.batches": 4,
    "precision": {"compute": "bf16", "residual": "fp32"}, "layout.tensor": "auto"})");
  const Job job = make_job(config, 16);
  CHECK(job.world == 16);
  CHECK(job.model.layers == 4);
  CHECK(job.train.global_batch == 16);
  CHECK(job.step_tokens() == 512);
  CHECK(job.save_every == 50);
  CHECK(job.evaluate_every == 20);
  CHECK(job.evaluate_batches == 4);
  CHECK(job.tokens == 1000000000);
  CHECK(job.top == 3);
  CHECK(job.tries_uneven);
  CHECK(job.tries_zero3);
  CHECK_FALSE(job.tries_gpipe);
  CHECK(job.hardware.name == "dgx-a100");
  CHECK(job.profile.name == std::string("plait"));
  CHECK(compute_bytes(job) == 2);
  CHECK(residual_bytes(job) == 4);
  LayoutConfig layout;
  layout.data = 2;
  layout.micro_batch = 4;
  CHECK(micro_batches(job, layout) == 2);
  CHECK(padded_vocabulary(job.model, 1) == 256);
  CHECK(padded_vocabulary(job.model, 4) == 512);
}

TEST_CASE("every word of planner.profile is a profile", "[job]") {
  std::string choices = key_info("planner.profile").choices;
  const Caught error = caught([] { find_profile("megatron"); });
  CHECK(error.word == "argument");
  CHECK(error.fields["choices"] == choices);
  int32_t count = 0;
  for (const char* name : {"plait", "megatron-2021", "megatron-2022", "deepspeed-2021"}) {
    CHECK(choice_index(choices, name) == count++);
    CHECK(find_profile(name).name == std::string(name));
  }
  CHECK_FALSE(find_profile("megatron-2021").overlaps_backward);
  CHECK(find_profile("megatron-2022").overlaps_backward);
  CHECK(find_profile("megatron-2022").accumulates_in_product);
  CHECK(find_profile("deepspeed-2021").gather_bytes_per_second == 16e9);
  for (const char* name : {"megatron-2021", "megatron-2022", "deepspeed-2021"}) {
    const Profile& profile = find_profile(name);
    CHECK_FALSE(profile.has_fused_attention);
    CHECK(profile.always_drops);
    CHECK(profile.gradient_bytes == 2);
    CHECK(profile.loss_forward_bytes + profile.loss_backward_bytes == 28);
    CHECK(profile.optimizer_bytes == 62);
  }
  CHECK(find_profile("plait").optimizer_bytes == 34);
}

TEST_CASE("layers are dealt to stages in runs that differ by one at most", "[job]") {
  ModelConfig model;
  model.layers = 10;
  LayoutConfig layout;
  CHECK(stage_layers(model, layout) == std::vector<int64_t>{10});
  layout.pipeline = 2;
  layout.interleave = 2;
  CHECK(stage_layers(model, layout) == std::vector<int64_t>{2, 3, 2, 3});
  layout.stage_layers = {1, 4, 4, 1};
  CHECK(stage_layers(model, layout) == layout.stage_layers);
}

TEST_CASE("a job that its configuration or its hardware cannot make is refused", "[job]") {
  const auto refused = [](const Config& config, int64_t world) {
    return caught([&] { make_job(config, world); });
  };
  CHECK(refused(small_plan(), 0).fields["world"] == 0);
  Config config = small_plan();
  config.set("train.global_batch", nullptr);
  CHECK(refused(config, 1).fields["key"] == "train.global_batch");
  config = small_plan();
  config.set("model.key_value_heads", "4");
  CHECK(refused(config, 1).fields["model.key_value_heads"] == 4);
  config = small_config();
  CHECK(refused(config, 1).fields["key"] == "hardware.name");
}

TEST_CASE("hardware has to have what a job needs of it", "[job]") {
  // The keys of a machine of its own, which no built-in description completes.
  const char* machine = R"({"hardware": {"device": {"kind": "cpu", "units": 1,
      "memory_bytes": 1e9, "memory_bytes_per_second": 1e10,
      "peak_flops_per_second": {"float32": 1e11}},
    "node.devices": 2, "matmul": {"efficiency": 0.9, "k_overhead": 0, "tiles": [[32, 32, 1]]},
    "stream.efficiency": 1, "overlap_exponent": 3, "overheads": {"collective_seconds": 0,
      "operation_seconds": 0, "step_seconds": 0}}})";
  Config config = small_config();
  config.load_json(machine);
  const auto refused = [&](int64_t world) { return caught([&] { make_job(config, world); }); };
  CHECK(refused(1).fields["key"] == "hardware.attention.forward_efficiency");
  config.set("planner.profile", "megatron-2021");
  CHECK(refused(1).word == "");
  config.set("planner.profile", "plait");
  config.set("hardware.attention.forward_efficiency", "0.5");
  CHECK(refused(1).fields["key"] == "hardware.attention.backward_efficiency");
  config.set("hardware.attention.backward_efficiency", "0.5");
  CHECK(refused(1).word == "");

  config.set("precision.compute", "bf16");
  CHECK(refused(1).fields["key"] == "hardware.device.peak_flops_per_second.bfloat16");
  config.set("precision.compute", "fp32");

  CHECK(refused(2).fields["key"] == "hardware.collectives");
  config.load_json(R"({"hardware": {"half_collective_alpha": 0.6, "collectives": [
    {"members_per_node": 2, "nodes": 1, "alpha_seconds": 0, "bytes_per_second": 1e9}]}})");
  Caught error = refused(2);
  CHECK(error.fields["key"] == "hardware.transfers");
  CHECK(error.fields["level"] == "node");
  config.load_json(R"({"hardware.transfers": [
    {"level": "node", "alpha_seconds": 0, "bytes_per_second": 1e9}]})");
  CHECK(refused(2).word == "");

  error = refused(3);
  CHECK(error.word == "argument");
  CHECK(error.fields["world"] == 3);
  CHECK(error.fields["hardware.node.devices"] == 2);
  CHECK(error.fields["nearest"] == 2);
  config.load_json(R"({"hardware.transfers": [
    {"level": "node", "alpha_seconds": 0, "bytes_per_second": 1e9},
    {"level": "fabric", "alpha_seconds": 0, "bytes_per_second": 1e9}]})");
  error = refused(3);
  CHECK(error.fields["key"] == "hardware.collectives");
  CHECK(error.fields["level"] == "fabric");
}
