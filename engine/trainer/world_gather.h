// One record of every rank for every rank.
#pragma once

#include <cstdint>

#include "engine/optimizer/optimizer.h"

namespace plait {

/// Ranks of the world.
int64_t world_size(const StepGroups& groups);

/// to [world · bytes] ← `from` [bytes] of each rank, by rank. `scratch` has the size of `to`.
/// Collective over all three axes; allocates nothing.
void gather_by_rank(const StepGroups& groups, const void* from, int64_t bytes, void* scratch,
                    void* to);

}  // namespace plait
