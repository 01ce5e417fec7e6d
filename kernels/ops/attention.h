// Causal attention with online softmax: scores = q·kᵀ/√D, probabilities in fp32, dropout on
// probabilities, times v. Query head i uses key/value head ⌊i·G/A⌋. Nothing of size S × S is kept:
// forward saves the logarithm of each row's sum of exponentials, backward recomputes probabilities.
#pragma once

#include "kernels/base/random.h"
#include "kernels/ops/context.h"

namespace plait {

struct AttentionShape {
  int64_t batch = 0;            ///< B
  int64_t sequence = 0;         ///< S
  int64_t heads = 0;            ///< A, local
  int64_t key_value_heads = 0;  ///< G, local
  int64_t head_size = 0;        ///< D
  int64_t first_head = 0;       ///< global index of local query head 0 (keys of dropout)
};

struct AttentionForward {
  AttentionShape shape;
  TensorView qkv;  ///< [B·S, (A + 2G)·D] compute dtype: query heads, key heads, value heads
  /// [B·S]: first position (within the row's sample) that each row may see; null: 0 everywhere.
  const int32_t* first_visible = nullptr;
  Dropout dropout;  ///< element (head·S + query)·S + key of a sample, head global, S = sequence
  TensorView y;     ///< [B·S, A·D] compute dtype
  TensorView log_sum;  ///< [B, A, S] float32: max + ln Σ exp(score − max), before dropout
};

struct AttentionBackward {
  AttentionShape shape;
  TensorView qkv;
  const int32_t* first_visible = nullptr;
  Dropout dropout;
  TensorView y;
  TensorView log_sum;
  TensorView grad_y;    ///< [B·S, A·D] compute dtype
  TensorView grad_qkv;  ///< [B·S, (A + 2G)·D] compute dtype, overwritten
};

class AttentionKernel {
 public:
  virtual ~AttentionKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(const AttentionShape& shape, DType dtype, IsaLevel isa) const = 0;
  virtual int64_t workspace_bytes(const AttentionShape& shape, DType dtype, int threads) const = 0;
  virtual void forward(OpContext& context, const AttentionForward& arguments,
                       void* workspace) const = 0;
  virtual void backward(OpContext& context, const AttentionBackward& arguments,
                        void* workspace) const = 0;
};

void attention_forward(OpContext& context, const AttentionForward& arguments);
void attention_backward(OpContext& context, const AttentionBackward& arguments);

}  // namespace plait
