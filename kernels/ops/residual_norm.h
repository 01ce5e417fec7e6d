// sum = x + dropout(delta + bias), y = norm(sum): the residual add and the norm that reads it, in
// one pass over memory. Either half may be left out. LayerNorm (1607.06450) and RMSNorm
// (1910.07467): epsilon inside the root, statistics in fp32, both of `sum` as stored (rounded).
#pragma once

#include "kernels/base/random.h"
#include "kernels/ops/context.h"

namespace plait {

enum class NormKind { kLayer, kRms };

struct ResidualNormForward {
  NormKind kind = NormKind::kLayer;
  float epsilon = 1e-5f;
  TensorView x;           ///< [M, H] residual dtype
  TensorView delta;       ///< [M, H] compute dtype, or absent: sum is x itself
  TensorView bias;        ///< [H] compute dtype, added to delta before dropout, or absent
  Dropout dropout;        ///< of delta + bias; element x of a sample is position · H + column
  int64_t sequence = 1;   ///< S: row m is position m mod S of sample first_sample + m / S
  int64_t first_row = 0;  ///< of the micro-batch: m counts from here where dropout is keyed
  TensorView sum;         ///< [M, H] residual dtype; absent when delta is; may be x's memory
  TensorView weight;      ///< [H] compute dtype; absent: no norm, y and statistics are absent too
  TensorView norm_bias;   ///< [H] compute dtype, LayerNorm only, or absent
  TensorView y;           ///< [M, H] compute dtype
  TensorView statistics;  ///< [M, 2] float32: mean (0 for RMS) and 1/root
};

/// Gradient of the norm half, plus what reaches the sum from elsewhere; then of delta. Each output
/// but grad_x may be absent.
struct ResidualNormBackward {
  NormKind kind = NormKind::kLayer;
  TensorView grad_y;      ///< [M, H] compute dtype; absent: the norm half was absent
  TensorView grad_sum;    ///< [M, H] residual dtype: gradient of sum from later layers, or absent
  TensorView sum;         ///< [M, H] residual dtype, as saved (x where delta was absent)
  TensorView weight;      ///< [H] compute dtype
  TensorView statistics;  ///< [M, 2] float32
  Dropout dropout;
  int64_t sequence = 1;
  int64_t first_row = 0;
  TensorView grad_x;          ///< [M, H] residual dtype, out; may be grad_sum's memory
  TensorView grad_delta;      ///< [M, H] compute dtype, out: dropout's backward of grad_x as stored
  TensorView grad_weight;     ///< [H] float32, or absent
  TensorView grad_norm_bias;  ///< [H] float32, or absent
  TensorView grad_bias;       ///< [H] float32: column sums of grad_delta as stored
  GradientMode mode = GradientMode::kOverwrite;  ///< of the three vectors
};

class ResidualNormKernel {
 public:
  virtual ~ResidualNormKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(DType compute, DType residual, IsaLevel isa) const = 0;
  /// Scratch bytes of `backward` (partial column sums in fixed row blocks).
  virtual int64_t workspace_bytes(int64_t rows, int64_t hidden) const = 0;
  virtual void forward(OpContext& context, const ResidualNormForward& arguments) const = 0;
  virtual void backward(OpContext& context, const ResidualNormBackward& arguments,
                        void* workspace) const = 0;
};

void residual_norm_forward(OpContext& context, const ResidualNormForward& arguments);
void residual_norm_backward(OpContext& context, const ResidualNormBackward& arguments);

}  // namespace plait
