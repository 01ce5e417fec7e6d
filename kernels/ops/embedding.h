// Token (and position) embedding with dropout; its backward adds rows in order of (id, row).
//
// A shard of the table looks up its own ids and leaves zeros for the others. Positions and dropout
// come after the sum over shards: a second call, which takes `token_rows`.
#pragma once

#include "kernels/base/random.h"
#include "kernels/ops/context.h"

namespace plait {

struct EmbeddingForward {
  const int32_t* tokens = nullptr;     ///< [M], each in [0, rows of the table)
  const int32_t* positions = nullptr;  ///< [M]; null: row m has position m mod sequence
  TensorView token_weight;             ///< [V, H] compute dtype
  TensorView position_weight;          ///< [longest S, H] compute dtype, or absent
  Dropout dropout;         ///< element x of a sample is position in the row · H + column
  int64_t sequence = 1;    ///< S
  TensorView y;            ///< [M, H] residual dtype
  int64_t first_row = 0;   ///< of the micro-batch: m counts from here in positions and dropout
  int64_t first_id = 0;    ///< id of the table's row 0
  int64_t vocabulary = 0;  ///< ids of all shards; 0: the table holds them all
  TensorView token_rows =
      {};  ///< [M, H] compute dtype in place of tokens and token_weight, or absent
};

struct EmbeddingBackward {
  const int32_t* tokens = nullptr;
  const int32_t* positions = nullptr;
  TensorView grad_y;  ///< [M, H] residual dtype
  Dropout dropout;
  int64_t sequence = 1;
  TensorView grad_token;                         ///< [V, H] float32, or absent
  TensorView grad_position;                      ///< [longest S, H] float32, or absent
  GradientMode mode = GradientMode::kOverwrite;  ///< overwrite zeroes the rows that no token names
  int64_t first_row = 0;
  int64_t first_id = 0;
  int64_t vocabulary = 0;  ///< as in forward; tokens of other shards are skipped
};

class EmbeddingKernel {
 public:
  virtual ~EmbeddingKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(DType compute, DType residual, IsaLevel isa) const = 0;
  /// Scratch bytes of `backward` (the order of rows by id); `table_rows` is the larger of the two
  /// tables' row counts.
  virtual int64_t workspace_bytes(int64_t rows, int64_t table_rows) const = 0;
  virtual void forward(OpContext& context, const EmbeddingForward& arguments) const = 0;
  virtual void backward(OpContext& context, const EmbeddingBackward& arguments,
                        void* workspace) const = 0;
};

void embedding_forward(OpContext& context, const EmbeddingForward& arguments);
void embedding_backward(OpContext& context, const EmbeddingBackward& arguments);

}  // namespace plait
