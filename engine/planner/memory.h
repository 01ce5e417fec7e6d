// Bytes that a rank keeps, by the categories of the arena, from configuration and layout alone.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/planner/job.h"

namespace plait {

struct RankMemory {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t activations = 0;
  int64_t communication = 0;
  int64_t workspace = 0;

  int64_t total() const {
    return weights + gradients + optimizer + activations + communication + workspace;
  }
};

/// Of the ranks at pipeline coordinate `pipeline` (tensor and data coordinates do not matter but
/// for rounding: the largest). Profiles of other software are judged by the rules of their engines.
RankMemory rank_memory(const Job& job, const LayoutConfig& layout, int64_t pipeline);

/// The largest category of `memory`: "weights", "gradients", ….
const char* largest_category(const RankMemory& memory);

}  // namespace plait
