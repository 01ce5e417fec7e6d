// AdamW (1711.05101) of one element in fp32: every product, sum, quotient and root is rounded on
// its own, in the order written here. Compile users without contraction of a·b + c, so that vector
// bodies, tails and devices agree in every bit.
#pragma once

#include <cmath>

#include "kernels/math/host_device.h"

namespace plait {

/// What all elements of one call share.
struct AdamWFactors {
  float gradient_scale;
  float lr;
  float beta1;
  float one_minus_beta1;  ///< fp32(1 − fp32 β₁)
  float beta2;
  float one_minus_beta2;
  float epsilon;
  float decay;
  float correction1;  ///< 1 − β₁ⁿ
  float correction2;  ///< 1 − β₂ⁿ
};

/// Updates the moments and θ of one element in place; `gradient` is not yet scaled.
PLAIT_HD inline void adamw_element(const AdamWFactors& factors, float gradient, float& moment1,
                                   float& moment2, float& theta) {
  const float g = factors.gradient_scale * gradient;
  moment1 = factors.beta1 * moment1 + factors.one_minus_beta1 * g;
  moment2 = factors.beta2 * moment2 + factors.one_minus_beta2 * (g * g);
  const float mean = moment1 / factors.correction1;
  const float root = std::sqrt(moment2 / factors.correction2);
  theta = theta - factors.lr * (mean / (root + factors.epsilon) + factors.decay * theta);
}

}  // namespace plait
