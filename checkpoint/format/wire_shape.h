// Shapes from counts that a file says.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/base/tensor.h"

namespace plait {

/// The first `dims` sizes, at most four.
inline Shape make_shape(int dims, const std::array<int64_t, Shape::kMaxDims>& sizes) {
  switch (dims) {
    case 0:
      return {};
    case 1:
      return {sizes[0]};
    case 2:
      return {sizes[0], sizes[1]};
    case 3:
      return {sizes[0], sizes[1], sizes[2]};
    default:
      return {sizes[0], sizes[1], sizes[2], sizes[3]};
  }
}

}  // namespace plait
