// Learning rate as a pure function of the update number, in fp64. Cosine: 1608.03983; WSD:
// 2404.06395.
#pragma once

#include <cstdint>

namespace plait {

struct LearningRate {
  enum class Kind { kConstant, kLinear, kCosine, kWsd };
  enum class Tail { kLinear, kCosine, kExponential, kSqrt };
  Kind kind = Kind::kConstant;
  Tail tail = Tail::kLinear;
  double lr = 0;      ///< η
  double min_lr = 0;  ///< reached at the end and kept
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  ///< D, warm-up included; unused by constant
  int64_t tail_steps = 0;   ///< R of WSD

  /// Rate of update n ≥ 1: η·n/w while n ≤ w; min_lr from n = D on.
  double at(int64_t n) const;
};

}  // namespace plait
