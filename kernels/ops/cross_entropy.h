// Cross entropy on a block of fp32 logits, cut in two so that vocabulary shards can be joined
// between: statistics of each row, then the gradient. Columns ≥ `vocabulary` (padding) take no part
// and have gradient 0, whatever they hold.
// loss = ln Q − P with M = max z, Q = Σ exp(z − M), P = z[target] − M. Target −1: statistics as for
// any row, loss 0, gradient 0. A shard without columns that count has maximum −∞ and sum 0.
#pragma once

#include "kernels/ops/context.h"

namespace plait {

struct CrossEntropyStatistics {
  TensorView logits;                 ///< [R, padded V of the shard] float32
  int64_t vocabulary = 0;            ///< columns of the shard that count, may be 0
  int64_t first_id = 0;              ///< id of column 0
  const int32_t* targets = nullptr;  ///< [R] global ids or −1
  TensorView maximum;                ///< [R] float32, out
  TensorView sum;                    ///< [R] float32, out: Σ exp(z − maximum)
  TensorView target_logit;           ///< [R] float32, out: z[target] if owned, else 0
};

struct CrossEntropyGradient {
  TensorView logits;  ///< [R, padded V] float32
  int64_t vocabulary = 0;
  int64_t first_id = 0;
  const int32_t* targets = nullptr;  ///< [R]
  TensorView maximum;                ///< [R] float32, joined over shards
  TensorView sum;                    ///< [R] float32, joined over shards
  float scale = 1.0f;                ///< S/N₀ of the step: the seed of the backward pass
  TensorView grad;  ///< [R, padded V] compute dtype, out; may be logits' memory when float32
};

class CrossEntropyKernel {
 public:
  virtual ~CrossEntropyKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(DType grad_dtype, IsaLevel isa) const = 0;
  virtual void statistics(OpContext& context, const CrossEntropyStatistics& arguments) const = 0;
  virtual void gradient(OpContext& context, const CrossEntropyGradient& arguments) const = 0;
};

void cross_entropy_statistics(OpContext& context, const CrossEntropyStatistics& arguments);
void cross_entropy_gradient(OpContext& context, const CrossEntropyGradient& arguments);

}  // namespace plait
