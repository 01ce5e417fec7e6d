// Rotation of one pair (x_j, x_{j + D/2}) of rotary position embedding (2104.09864).
#pragma once

#include "kernels/math/host_device.h"

namespace plait {

/// Rotates (low, high) by the angle of `cosine` and `sine`, in place. The inverse takes −sine.
template <class Real>
PLAIT_HD inline void rotate_pair(Real& low, Real& high, Real cosine, Real sine) {
  const Real rotated = low * cosine - high * sine;
  high = high * cosine + low * sine;
  low = rotated;
}

}  // namespace plait
