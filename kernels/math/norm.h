// LayerNorm (1607.06450) and RMSNorm (1910.07467), one element at a time. A row's `mean` is 0 and
// `mean_grad` is 0 for RMSNorm; `root` is 1/√(variance + ε) or 1/√(mean square + ε).
#pragma once

#include <cmath>

#include "kernels/math/host_device.h"

namespace plait {

/// `spread` is the variance (layer) or the mean square (RMS) of a row.
template <class Real>
PLAIT_HD inline Real norm_root(Real spread, Real epsilon) {
  return Real(1) / std::sqrt(spread + epsilon);
}

template <class Real>
PLAIT_HD inline Real normalized(Real x, Real mean, Real root) {
  return (x - mean) * root;
}

/// Gradient of an element of the norm's input. `grad` is grad_y · weight, `unit` the normalized
/// element; `mean_grad` and `mean_product` are the row's means of grad and of grad · unit.
template <class Real>
PLAIT_HD inline Real norm_grad(Real grad, Real unit, Real root, Real mean_grad, Real mean_product) {
  return root * (grad - mean_grad - unit * mean_product);
}

}  // namespace plait
