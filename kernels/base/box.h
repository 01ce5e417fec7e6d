// An axis-aligned box of a logical tensor, in its global coordinates: the unit in which tensors
// are cut over ranks and put together again.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/base/tensor.h"

namespace plait {

struct Box {
  std::array<int64_t, Shape::kMaxDims> first{};  ///< inclusive start per dim
  std::array<int64_t, Shape::kMaxDims> size{};   ///< extent per dim, ≥ 0
  int dims = 0;

  /// The whole of a tensor of this shape.
  static Box whole(const Shape& shape);
  int64_t elements() const;
  bool operator==(const Box& other) const = default;
};

}  // namespace plait
