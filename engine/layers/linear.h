// Linear layers: y = x · Wᵀ + bias.
#pragma once

#include <memory>

#include "engine/layers/layer.h"
#include "engine/layers/parameter.h"
#include "kernels/ops/linear.h"

namespace plait {

/// Borrowed views: the input, kept until its weight gradient is done, and the output's gradient.
struct LinearState {
  TensorView x;       ///< [rows, K]
  TensorView grad_y;  ///< [rows, N], set by backward_input
};

class LinearLayer : public Layer {
 public:
  /// x [rows, K] and y [rows, N] in the compute dtype (y may be float32).
  virtual void forward(const Pass& pass, TensorView x, TensorView y, LinearState& state) = 0;
  /// grad_x [rows, K] is overwritten. Keeps grad_y, which must stay, for backward_weight.
  virtual void backward_input(const Pass& pass, TensorView grad_y, TensorView grad_x,
                              LinearState& state) = 0;
  virtual void backward_weight(const Pass& pass, const LinearState& state) = 0;
  /// Both parts with nothing between: the same bits, and work of one may hide waits of the other.
  virtual void backward(const Pass& pass, TensorView grad_y, TensorView grad_x,
                        LinearState& state) {
    backward_input(pass, grad_y, grad_x, state);
    backward_weight(pass, state);
  }
};

/// On one device. Follows the weight's view as it is at weights_changed.
class Linear final : public LinearLayer {
 public:
  /// Outputs [first, first + count) of a weight.
  struct Rows {
    int64_t first = 0, count = 0;
  };
  /// `bias` may be null. Parameters are borrowed.
  Linear(Parameter* weight, Parameter* bias);
  /// Of some rows of a weight without a bias. The gradient goes to the weight's second accumulator
  /// when `is_second_use`.
  Linear(Parameter* weight, Rows rows, bool is_second_use);

  void prepare(OpContext& context, int64_t max_rows) override;
  void weights_changed(OpContext& context) override;
  void forward(const Pass& pass, TensorView x, TensorView y, LinearState& state) override;
  void backward_input(const Pass& pass, TensorView grad_y, TensorView grad_x,
                      LinearState& state) override;
  void backward_weight(const Pass& pass, const LinearState& state) override;

 private:
  TensorView part(TensorView whole) const;

  Parameter* weight_;
  Parameter* bias_;
  Rows rows_;
  bool is_second_use_ = false;
  LinearWeight linear_;
  Buffer packed_;
};

}  // namespace plait
