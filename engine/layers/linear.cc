#include "engine/layers/linear.h"

namespace plait {

Linear::Linear(Parameter* weight, Parameter* bias)
    : weight_(weight), bias_(bias), rows_{0, weight->shape[0]} {}

Linear::Linear(Parameter* weight, Rows rows, bool is_second_use)
    : weight_(weight), bias_(nullptr), rows_(rows), is_second_use_(is_second_use) {}

TensorView Linear::part(TensorView whole) const {
  return whole.slice_rows(rows_.first, rows_.count);
}

void Linear::prepare(OpContext& context, int64_t max_rows) {
  linear_.shape = {rows_.count, weight_->shape[1], weight_->weight.dtype, max_rows};
  linear_.weight = part(weight_->weight);
  linear_.plan = make_linear_plan(context, linear_.shape);
  if (linear_.plan->packed_bytes() == 0) return;
  packed_ = context.device.allocate(linear_.plan->packed_bytes(), MemoryCategory::kWeights);
  linear_.packed = packed_.data();
}

void Linear::weights_changed(OpContext& context) {
  linear_.weight = part(weight_->weight);
  linear_pack(context, linear_);
}

void Linear::forward(const Pass& pass, TensorView x, TensorView y, LinearState& state) {
  state = {x, {}};
  linear_forward(pass.context, linear_, {x, bias_ ? bias_->weight : TensorView{}, y});
}

void Linear::backward_input(const Pass& pass, TensorView grad_y, TensorView grad_x,
                            LinearState& state) {
  state.grad_y = grad_y;
  linear_backward_input(pass.context, linear_, {grad_y, grad_x});
}

void Linear::backward_weight(const Pass& pass, const LinearState& state) {
  LinearBackwardWeight arguments;
  arguments.grad_y = state.grad_y;
  arguments.x = state.x;
  arguments.grad_weight = part(is_second_use_ ? weight_->second_gradient : weight_->gradient);
  if (bias_ != nullptr) arguments.grad_bias = bias_->gradient;
  arguments.mode = pass.mode;
  linear_backward_weight(pass.context, linear_, arguments);
}

}  // namespace plait
