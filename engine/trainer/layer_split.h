// Which layers each virtual stage of a layout holds.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/config/settings.h"

namespace plait {

/// {first layer, layers} of every virtual stage: the given counts, or equal runs.
std::vector<std::pair<int64_t, int64_t>> split_layers(const ModelConfig& model,
                                                      const LayoutConfig& layout);

}  // namespace plait
