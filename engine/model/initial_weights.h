// Initial weights, drawn from counter-based streams named after logical tensors: each rank draws
// only the elements that it owns, and every layout starts from the same bits.
#pragma once

#include "engine/layers/parameter.h"

namespace plait {

/// Fills master [unit elements] float32; padding is zero.
void fill_initial_weights(const Unit& unit, uint64_t seed, ThreadPool& pool, float* master);

}  // namespace plait
