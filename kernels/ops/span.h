// Ops on flat spans: rounding from fp32, widening, adding, and sums of squares.
#pragma once

#include "kernels/ops/context.h"

namespace plait {

class SpanKernel {
 public:
  virtual ~SpanKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(DType dtype, IsaLevel isa) const = 0;
  /// to ← from; any pair of float32, bfloat16, float16.
  virtual void convert(OpContext& context, TensorView from, TensorView to) const = 0;
  /// to ← to + from, of one dtype, added in fp32 and rounded once.
  virtual void add(OpContext& context, TensorView from, TensorView to) const = 0;
  /// Σ x² of a float32 span in fp64, the same bits everywhere: in each block of 4096 elements lane
  /// l of 8 adds elements l, l + 8, … in turn, the block is ((0+1)+(2+3))+((4+5)+(6+7)) of the
  /// lanes, blocks are added in ascending order. Not finite as soon as one element is not.
  virtual double sum_squares(OpContext& context, TensorView span, double* block_sums) const = 0;
};

/// Elements of one block of sum_squares.
inline constexpr int64_t kSumSquaresBlock = 4096;

void convert_span(OpContext& context, TensorView from, TensorView to);
void add_span(OpContext& context, TensorView from, TensorView to);
/// 0 in a measuring pass.
double sum_squares(OpContext& context, TensorView span);

}  // namespace plait
