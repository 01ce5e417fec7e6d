// Layout-invariant digest of tensors: a sum modulo 2^64 over elements, each mixed with its
// row-major index in the whole logical tensor, so that any partition of a tensor adds up to the
// same value, and any changed, swapped or moved element shows.
#pragma once

#include <cstdint>

#include "kernels/base/box.h"
#include "kernels/base/dtype.h"
#include "kernels/base/tensor.h"

namespace plait {

/// One element: `bits` is its stored pattern, zero-extended.
constexpr uint64_t digest_mix(uint64_t bits, uint64_t index) {
  uint64_t z = bits ^ ((index + 1) * 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// Elements [first, first + count) of a tensor, stored one after another at `data` (any alignment).
uint64_t digest_run(const void* data, DType dtype, int64_t count, int64_t first);

/// A box stored row-major at `data`, of a tensor of `shape`.
uint64_t digest_box(const void* data, DType dtype, const Box& box, const Shape& shape);

/// Elements [first, first + count) of such a box, in its row-major order, stored at `data`: boxes
/// can be summed up in chunks.
uint64_t digest_part(const void* data, DType dtype, const Box& box, const Shape& shape,
                     int64_t first, int64_t count);

}  // namespace plait
