#include "engine/planner/memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "engine/planner/kernel_sizes.h"
#include "engine/planner/rank_share.h"
#include "engine/planner/scratch.h"

namespace plait {
namespace {

/// Weights in the second form in which products keep them.
int64_t packed_weights(const RankShare& share, const KernelSizes& kernels) {
  int64_t layer = 0;
  for (const LinearShare& linear : {share.projection(), share.output(), share.up(), share.down()}) {
    layer += kernels.packed_bytes(linear);
  }
  const int64_t head = share.is_last ? kernels.packed_bytes(share.head()) : 0;
  return share.lanes * (share.layers * layer + head);
}

/// Saved state of a layer by a micro-batch: A = bs·[2(r + z)h/ρ + z(2ae + 2Ge + R)/t] + 4·bas/t +
/// 16·bs/ρ, r and z bytes of residual stream and compute dtype, ρ = t where the stream is cut.
int64_t layer_state(const RankShare& share) {
  const int64_t stream = share.stream_rows * share.hidden;
  const int64_t width = share.lanes * (share.projection().outputs + share.output().inputs +
                                       share.up().outputs + share.down().inputs);
  return 2 * (share.residual + share.compute) * stream + share.compute * share.rows * width +
         kFloatBytes * share.rows * share.lanes * share.heads + 4 * kFloatBytes * share.stream_rows;
}

/// Gradients that a layer's backward pass leaves for its weights.
int64_t layer_gradients(const RankShare& share) {
  const int64_t width = share.lanes * (share.projection().outputs + share.up().outputs);
  return share.compute * (2 * share.stream_rows * share.hidden + share.rows * width);
}

int64_t stage_activations(const RankShare& share, const StageShare& stage) {
  const int64_t input = share.residual * share.stream_rows * share.hidden;
  const int64_t head =
      2 * kFloatBytes * share.stream_rows + share.compute * share.stream_rows * share.hidden;
  const int64_t output = input + (stage.is_last ? head : 0);
  int64_t bytes = stage.alive * output + (share.is_split ? stage.alive : 1) * input;
  if (stage.layers == 0) return bytes;
  const int64_t layer = layer_state(share), gradients = layer_gradients(share);
  if (share.is_replaying) {
    const int64_t run = std::min(share.layout.recompute_layers, stage.layers);
    const int64_t runs = (stage.layers + run - 1) / run;
    bytes += stage.alive * runs * input + run * layer - input;
  } else {
    bytes += stage.alive * stage.layers * layer;
  }
  return bytes + (share.is_split ? stage.alive * stage.layers : 1) * gradients;
}

/// Windows for what is not kept whole, and a boundary tensor for each direction.
int64_t communication_bytes(const RankShare& share) {
  int64_t largest = 0, count = 0, uses = 0;
  for (const UnitShare& unit : share.units) {
    if (unit.count > 0) largest = std::max(largest, unit.elements);
    count += unit.count;
    uses += unit.count * unit.uses;
  }
  constexpr int64_t kMostWindows = 2;
  int64_t bytes = 0;
  if (share.data > 1 && share.layout.zero >= 2) {
    bytes += std::min(kMostWindows, uses) * kFloatBytes * largest;
  }
  if (share.data > 1 && share.layout.zero == 3) {
    bytes += std::min(kMostWindows, count) * share.compute * largest;
  }
  if (share.layout.pipeline > 1) bytes += 2 * share.boundary_elements() * share.residual;
  return bytes;
}

RankMemory engine_memory(const RankShare& share) {
  const KernelSizes kernels(share.job.hardware, share.job.precision.compute);
  const auto part = [&](bool is_cut) { return is_cut ? share.data : 1; };
  const int64_t zero = share.layout.zero, elements = share.elements();
  const int64_t levels = std::bit_width(static_cast<uint64_t>(share.batch_parts));
  // Moments, and masters where they are not the weights themselves.
  const int64_t state = share.compute == kFloatBytes ? 2 * kFloatBytes : 3 * kFloatBytes;
  RankMemory memory;
  memory.weights = share.compute * elements / part(zero == 3) + packed_weights(share, kernels);
  memory.gradients = levels * kFloatBytes * share.elements_of_uses() / part(zero >= 2);
  memory.optimizer = state * elements / part(zero >= 1);
  for (int64_t chunk = 0; chunk < share.layout.interleave; ++chunk) {
    memory.activations += stage_activations(share, share.stage(chunk));
  }
  memory.communication = communication_bytes(share);
  memory.workspace = scratch_bytes(share, kernels);
  return memory;
}

/// A layer's activations by a micro-batch in software that keeps one-byte masks and dropped
/// probabilities, by 2205.05198.
double published_layer(const RankShare& share, RecomputeChoice recompute) {
  const auto t = static_cast<double>(share.tensor), h = static_cast<double>(share.hidden);
  const double x = static_cast<double>(share.rows) * h, rho = share.is_cut ? t : 1;
  const double scores = recompute == RecomputeChoice::kSelective
                            ? 0
                            : 5 * static_cast<double>(share.model.heads) *
                                  static_cast<double>(share.job.train.sequence_length) / (h * t);
  return x * (10 / rho + 24 / t + scores);
}

/// Rules for judging runs of other engines, which allocate as they go: 12 % of all but states is
/// lost between their blocks.
RankMemory published_memory(const RankShare& share) {
  constexpr double kLost = 0.12, kLogit = 18;
  const auto elements = static_cast<double>(share.elements()), d = static_cast<double>(share.data);
  const int64_t zero = share.layout.zero;
  const double gradient = share.job.profile.accumulates_in_product ? 4 : 6;  // 2 + a copy in 4
  const auto bytes = [&](double each, bool is_cut) {
    return static_cast<int64_t>(elements * each / (is_cut ? d : 1));
  };
  RankMemory memory;
  memory.weights = bytes(2, zero == 3);
  memory.gradients = bytes(gradient, zero >= 2);
  memory.optimizer = bytes(12, zero >= 1);
  const bool is_full = share.layout.recompute == RecomputeChoice::kFull;
  const double x = static_cast<double>(share.stream_rows * share.hidden);
  double kept = 0, scratch = 0;  // of the chunk that takes most
  for (int64_t chunk = 0; chunk < share.layout.interleave; ++chunk) {
    const int64_t layers = share.stage(chunk).layers;
    const int64_t run = std::max<int64_t>(std::min(share.layout.recompute_layers, layers), 1);
    const auto runs = static_cast<double>((layers + run - 1) / run);
    kept = std::max(kept, is_full ? 2 * x * runs
                                  : static_cast<double>(layers) *
                                        published_layer(share, share.layout.recompute));
    if (!is_full || layers == 0) continue;
    scratch = std::max(scratch,
                       static_cast<double>(run) * published_layer(share, RecomputeChoice::kNone));
  }
  // Memory goes from chunk to chunk, so what counts is how many are alive at once.
  const double activations = kept * static_cast<double>(peak_of_table(
                                        schedule_shape(share.job, share.layout), share.pipeline));
  // Logits are gone before layers are run again.
  if (share.is_last) {
    scratch = std::max(scratch, kLogit * static_cast<double>(share.rows * share.vocabulary));
  }
  memory.activations = static_cast<int64_t>(activations);
  memory.workspace = static_cast<int64_t>(scratch + kLost * (activations + scratch));
  return memory;
}

}  // namespace

RankMemory rank_memory(const Job& job, const LayoutConfig& layout, int64_t pipeline) {
  const RankShare share(job, layout, pipeline);
  const bool is_own = std::string_view(job.profile.name) == "plait";
  return is_own ? engine_memory(share) : published_memory(share);
}

const char* largest_category(const RankMemory& memory) {
  struct Row {
    const char* name;
    int64_t bytes;
  };
  const std::array rows = {Row{"weights", memory.weights},
                           Row{"gradients", memory.gradients},
                           Row{"optimizer", memory.optimizer},
                           Row{"activations", memory.activations},
                           Row{"communication", memory.communication},
                           Row{"workspace", memory.workspace}};
  return std::max_element(rows.begin(), rows.end(),
                          [](const Row& a, const Row& b) { return a.bytes < b.bytes; })
      ->name;
}

}  // namespace plait
