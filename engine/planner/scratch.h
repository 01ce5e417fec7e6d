// Scratch memory of a rank: the most that its passes, the close of a step and the comparison of
// replicas have in use at once, as the engine's measuring pass finds it.
#pragma once

#include <cstdint>

#include "engine/planner/kernel_sizes.h"
#include "engine/planner/rank_share.h"

namespace plait {

/// Of the rank of the stage that takes most. Exact up to 64 data coordinates; beyond, what depends
/// on where slices of units begin is an upper bound.
int64_t scratch_bytes(const RankShare& share, const KernelSizes& kernels);

}  // namespace plait
