// A linear layer whose inputs are cut over a tensor group: this rank holds columns of W
// (1909.08053, section 3). It stands at the exit of a linear pair: its input is local, its output
// the sum over ranks that the residual stream takes. The bias is not here: who adds the output to
// the stream adds it too, once.
#pragma once

#include <memory>

#include "engine/layers/linear.h"
#include "engine/tensor_parallel/stream_region.h"

namespace plait {

/// x, grad_x [rows, K/t]; y, grad_y [stream rows, N]. Of a cut stream grad_y is gathered once for
/// both parts of backward, or once for each where they run apart.
class RowLinear final : public LinearLayer {
 public:
  /// The local part of W, borrowed.
  RowLinear(Parameter* weight, const TensorGroup& group);

  void prepare(OpContext& context, int64_t max_rows) override;
  void weights_changed(OpContext& context) override;
  void forward(const Pass& pass, TensorView x, TensorView y, LinearState& state) override;
  void backward_input(const Pass& pass, TensorView grad_y, TensorView grad_x,
                      LinearState& state) override;
  void backward_weight(const Pass& pass, const LinearState& state) override;
  void backward(const Pass& pass, TensorView grad_y, TensorView grad_x,
                LinearState& state) override;

 private:
  Linear linear_;
  std::unique_ptr<StreamRegion> region_;
};

}  // namespace plait
