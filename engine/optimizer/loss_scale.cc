#include "engine/optimizer/loss_scale.h"

#include <algorithm>

namespace plait {

void LossScale::restore(const State& state) {
  if (!options_.is_dynamic) return;
  scale_ = std::clamp(state.scale, options_.minimum, options_.maximum);
  good_ = state.good_steps;
  hysteresis_ = state.hysteresis_left;
}

void LossScale::clean_step() {
  if (!options_.is_dynamic || ++good_ < options_.window) return;
  scale_ = std::min(2.0 * scale_, options_.maximum);
  good_ = 0;
  hysteresis_ = options_.hysteresis;
}

bool LossScale::overflow() {
  if (!options_.is_dynamic) return true;
  good_ = 0;
  if (--hysteresis_ > 0) return true;
  if (scale_ <= options_.minimum) return false;
  scale_ = std::max(scale_ / 2.0, options_.minimum);
  return true;
}

}  // namespace plait
