// The initial weights of a unit as plain values.
#pragma once

#include <cmath>
#include <vector>

#include "engine/layers/initial_weights.h"
#include "tests/engine/tensor_parallel/parallel_rig.h"

namespace plait::test {

/// All elements of the unit's flat buffer.
inline std::vector<float> initial_weights(Device& device, const Unit& unit, uint64_t seed) {
  std::vector<float> weights(static_cast<size_t>(unit.elements()), NAN);
  run_measured(device, [&](OpContext& context) {
    fill_initial_weights(context, unit, seed, 0, unit.elements(), weights.data());
  });
  return weights;
}

}  // namespace plait::test
