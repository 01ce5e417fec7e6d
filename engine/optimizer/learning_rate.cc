#include "engine/optimizer/learning_rate.h"

#include <cmath>
#include <numbers>

namespace plait {
namespace {

double tail_shape(LearningRate::Tail tail, double y) {
  switch (tail) {
    case LearningRate::Tail::kLinear:
      return 1.0 - y;
    case LearningRate::Tail::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * y));
    case LearningRate::Tail::kExponential:
      return 2.0 * std::exp2(-y) - 1.0;
    case LearningRate::Tail::kSqrt:
      return 1.0 - std::sqrt(y);
  }
  return 0.0;
}

}  // namespace

double LearningRate::at(int64_t n) const {
  if (n <= warmup_steps) return lr * static_cast<double>(n) / static_cast<double>(warmup_steps);
  if (kind == Kind::kConstant) return lr;
  if (n >= decay_steps) return min_lr;
  const double x =
      static_cast<double>(n - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
  switch (kind) {
    case Kind::kLinear:
      return lr + (min_lr - lr) * x;
    case Kind::kCosine:
      return min_lr + 0.5 * (lr - min_lr) * (1.0 + std::cos(std::numbers::pi * x));
    default:
      break;
  }
  const int64_t tail_start = decay_steps - tail_steps;
  if (n <= tail_start) return lr;
  const double y = static_cast<double>(n - tail_start) / static_cast<double>(tail_steps);
  return min_lr + (lr - min_lr) * tail_shape(tail, y);
}

}  // namespace plait
