// Initial weights, drawn from counter-based streams named after logical tensors: each rank draws
// only the elements that it owns, and every layout starts from the same bits.
#pragma once

#include "engine/layers/parameter.h"

namespace plait {

/// Fills out [count] float32 with elements [first, first + count) of the unit's flat buffer, which
/// may begin and end inside parameters; padding is zero.
void fill_initial_weights(const Unit& unit, uint64_t seed, ThreadPool& pool, int64_t first,
                          int64_t count, float* out);

/// All of the unit: master [unit elements].
void fill_initial_weights(const Unit& unit, uint64_t seed, ThreadPool& pool, float* master);

}  // namespace plait
