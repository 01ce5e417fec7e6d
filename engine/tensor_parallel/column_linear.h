// A linear layer whose outputs are cut over a tensor group: this rank holds rows of W and the same
// part of the bias (1909.08053, section 3). It stands at the entry of a linear pair: its input is
// the residual stream's, its output stays local.
#pragma once

#include <memory>

#include "engine/layers/linear.h"
#include "engine/tensor_parallel/stream_region.h"

namespace plait {

/// x, grad_x [stream rows, K]; y, grad_y [rows, N/t]. The state keeps x as it came, so of a cut
/// stream the own rows alone; they are gathered again for the weight gradient.
class ColumnLinear final : public LinearLayer {
 public:
  /// `bias` may be null. Parameters are the local ones, borrowed.
  ColumnLinear(Parameter* weight, Parameter* bias, const TensorGroup& group);

  void prepare(OpContext& context, int64_t max_rows) override;
  void weights_changed(OpContext& context) override;
  void forward(const Pass& pass, TensorView x, TensorView y, LinearState& state) override;
  void backward_input(const Pass& pass, TensorView grad_y, TensorView grad_x,
                      LinearState& state) override;
  void backward_weight(const Pass& pass, const LinearState& state) override;
  /// Gathers x beside the first product and sums grad_x beside the second.
  void backward(const Pass& pass, TensorView grad_y, TensorView grad_x,
                LinearState& state) override;

 private:
  Linear linear_;
  std::unique_ptr<StreamRegion> region_;
};

}  // namespace plait
