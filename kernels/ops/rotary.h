// Rotary position embedding (2104.09864) in place on the query and key columns of a fused
// [query | key | value] tensor. Pairs are (j, j + D/2), angle = position · base^(−2j/D), made in
// fp64.
#pragma once

#include "kernels/ops/context.h"

namespace plait {

struct Rotary {
  TensorView qkv;               ///< [M, (A + 2G)·D] compute dtype, changed in place
  int64_t heads = 0;            ///< A
  int64_t key_value_heads = 0;  ///< G
  int64_t head_size = 0;        ///< D, even
  TensorView table;  ///< [longest S, D] float32: D/2 cosines, then D/2 sines of each position
  const int32_t* positions = nullptr;  ///< [M]; null: row m has position m mod sequence
  int64_t sequence = 1;                ///< S
  bool is_inverse = false;             ///< rotates back: the backward pass, on gradients
};

class RotaryKernel {
 public:
  virtual ~RotaryKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(DType dtype, IsaLevel isa) const = 0;
  virtual void run(OpContext& context, const Rotary& arguments) const = 0;
};

/// Fills a table [positions, head_size] float32.
void make_rotary_table(double base, TensorView table);

void rotary(OpContext& context, const Rotary& arguments);

}  // namespace plait
