// How the residual stream lies on the ranks of a tensor group, and the collectives that lead into a
// linear pair and out of it (2205.05198, section 4.2.2):
//
//   whole on every rank   in: nothing               out: all-reduce
//   cut by rows           in: all-gather of rows    out: reduce-scatter of rows
//
// In a measuring pass buffers are taken and nothing is sent.
#pragma once

#include <memory>

#include "engine/layers/layer.h"
#include "engine/tensor_parallel/tensor_group.h"

namespace plait {

class StreamRegion {
 public:
  explicit StreamRegion(const TensorGroup& group) : group_(group) {}
  virtual ~StreamRegion() = default;

  /// x [stream rows, N] → all rows [rows, N] in order: x itself or memory of `frame`. They are
  /// there after `finish`.
  virtual TensorView start_all_rows(const Pass& pass, TensorView x, Workspace::Frame& frame) = 0;
  /// Where this rank's term of a sum that ends in y [stream rows, N] is computed, [rows, N]: y
  /// itself or memory of `frame`.
  virtual TensorView term(const Pass& pass, TensorView y, Workspace::Frame& frame) = 0;
  /// y ← the stream's rows of the sum of all terms, after `finish`.
  virtual void start_sum(const Pass& pass, TensorView term, TensorView y) = 0;
  /// Row `row` of the micro-batch [1, N], from x [stream rows, N]; on all ranks.
  virtual TensorView pick_row(const Pass& pass, TensorView x, int64_t row,
                              Workspace::Frame& frame) = 0;

  /// Ends what was started; between the two no other collective of the group runs.
  void finish();
  /// Start and finish.
  TensorView all_rows(const Pass& pass, TensorView x, Workspace::Frame& frame);
  void sum(const Pass& pass, TensorView term, TensorView y);

 protected:
  const TensorGroup group_;
  bool is_open_ = false;
};

/// The one that the group asks for.
std::unique_ptr<StreamRegion> make_stream_region(const TensorGroup& group);

}  // namespace plait
