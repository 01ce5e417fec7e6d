#include "engine/trainer/layer_split.h"

#include <algorithm>

#include "engine/planner/job.h"

namespace plait {

std::vector<std::pair<int64_t, int64_t>> split_layers(const ModelConfig& model,
                                                      const LayoutConfig& layout) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  int64_t first = 0;
  for (const int64_t count : stage_layers(model, layout)) {
    runs.emplace_back(first, count);
    first += count;
  }
  return runs;
}

TensorGroup tensor_group(const Settings& settings, const Coordinates& at) {
  const LayoutConfig& layout = settings.layout;
  TensorGroup group;
  group.size = layout.tensor;
  group.index = at.tensor;
  group.is_sequence_parallel = layout.sequence_parallel && layout.tensor > 1;
  group.is_overlapping = layout.overlap;
  group.lanes = std::max<int64_t>(settings.precision.canonical_tensor / layout.tensor, 1);
  return group;
}

}  // namespace plait
