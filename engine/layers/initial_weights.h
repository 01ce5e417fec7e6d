// Initial weights, drawn from counter-based streams named after logical tensors: each rank draws
// only the elements that it owns, and every layout starts from the same bits.
#pragma once

#include "engine/layers/parameter.h"
#include "kernels/ops/context.h"

namespace plait {

/// Fills out [count] float32 with elements [first, first + count) of the unit's flat buffer, which
/// may begin and end inside parameters; padding is zero. On the rank's thread.
void fill_initial_weights(OpContext& context, const Unit& unit, uint64_t seed, int64_t first,
                          int64_t count, float* out);

}  // namespace plait
