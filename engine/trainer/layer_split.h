// What of a model the ranks of a layout hold: layers by virtual stage, and the tensor axis.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/comm/mesh.h"
#include "engine/config/settings.h"
#include "engine/tensor_parallel/tensor_group.h"

namespace plait {

/// {first layer, layers} of every virtual stage: the given counts, or equal runs.
std::vector<std::pair<int64_t, int64_t>> split_layers(const ModelConfig& model,
                                                      const LayoutConfig& layout);

/// The tensor axis as a rank at `at` sees it, still without a communicator.
TensorGroup tensor_group(const Settings& settings, const Coordinates& at);

}  // namespace plait
