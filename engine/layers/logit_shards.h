// What the loss head asks for where logits are cut by vocabulary. The head computes on the ids that
// are here; this object brings in the rows it reads and joins its sums with those of other shards.
#pragma once

#include "engine/layers/layer.h"

namespace plait {

/// The default: all ids are here. Buffers that a call takes come from `frame`, which the caller
/// keeps until it is done with them.
class LogitShards {
 public:
  virtual ~LogitShards() = default;
  /// x [stream rows, H] → all rows [rows, H], in order.
  virtual TensorView all_rows(const Pass&, TensorView x, Workspace::Frame&) { return x; }
  /// Where the gradient of all rows from this shard's ids is gathered before sum_gradient puts it
  /// into grad_x [stream rows, H].
  virtual TensorView shard_gradient(const Pass&, TensorView grad_x, Workspace::Frame&) {
    return grad_x;
  }
  /// grad_x ← sum over shards of `shard_gradient`.
  virtual void sum_gradient(const Pass&, TensorView /*shard_gradient*/, TensorView /*grad_x*/) {}
  /// Whether others hold ids, too.
  virtual bool is_cut() const { return false; }
  /// maximum [R] float32 ← largest over shards.
  virtual void join_maximum(TensorView /*maximum*/) {}
  /// sums [2, R] float32 ← those over shards: of each row Σ exp(z − the maximum of all ids) and the
  /// target's logit, 0 where another shard owns it.
  virtual void join_sums(TensorView /*sums*/) {}
  /// Row `row` of the micro-batch, [1, H], of the rows x that pass here.
  virtual TensorView pick_row(const Pass&, TensorView x, int64_t row, Workspace::Frame&) {
    return x.slice_rows(row, 1);
  }
};

}  // namespace plait
