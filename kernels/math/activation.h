// Activations of one element. `Real` is float or double.
#pragma once

#include <cmath>

#include "kernels/math/host_device.h"

namespace plait {

/// √(2/π) and the cubic factor of GELU's tanh form (1606.08415).
inline constexpr double kGeluRoot = 0.79788456080286535588;
inline constexpr double kGeluCubic = 0.044715;

template <class Real>
PLAIT_HD inline Real gelu(Real u) {
  const Real inner = Real(kGeluRoot) * (u + Real(kGeluCubic) * u * u * u);
  return Real(0.5) * u * (Real(1) + std::tanh(inner));
}

/// d gelu(u) / du.
template <class Real>
PLAIT_HD inline Real gelu_derivative(Real u) {
  const Real square = u * u;
  const Real t = std::tanh(Real(kGeluRoot) * (u + Real(kGeluCubic) * square * u));
  const Real slope = Real(kGeluRoot) * (Real(1) + Real(3 * kGeluCubic) * square);
  return Real(0.5) * (Real(1) + t) + Real(0.5) * u * (Real(1) - t * t) * slope;
}

template <class Real>
PLAIT_HD inline Real sigmoid(Real u) {
  return Real(1) / (Real(1) + std::exp(-u));
}

template <class Real>
PLAIT_HD inline Real silu(Real u) {
  return u * sigmoid(u);
}

/// d silu(u) / du.
template <class Real>
PLAIT_HD inline Real silu_derivative(Real u) {
  const Real s = sigmoid(u);
  return s * (Real(1) + u * (Real(1) - s));
}

}  // namespace plait
