#include "engine/tensor_parallel/row_linear.h"

#include "kernels/base/mutation.h"

namespace plait {

RowLinear::RowLinear(Parameter* weight, const TensorGroup& group)
    : linear_(weight, nullptr), region_(make_stream_region(group)) {}

void RowLinear::prepare(OpContext& context, int64_t max_rows) {
  linear_.prepare(context, max_rows);
}

void RowLinear::weights_changed(OpContext& context) { linear_.weights_changed(context); }

void RowLinear::forward(const Pass& pass, TensorView x, TensorView y, LinearState& state) {
  Workspace::Frame frame(pass.context.workspace);
  const TensorView term = region_->term(pass, y, frame);
  linear_.forward(pass, x, term, state);
  if (!is_mutated(Mutation::kRowSumSkipped)) region_->sum(pass, term, y);
}

void RowLinear::backward_input(const Pass& pass, TensorView grad_y, TensorView grad_x,
                               LinearState& state) {
  Workspace::Frame frame(pass.context.workspace);
  linear_.backward_input(pass, region_->all_rows(pass, grad_y, frame), grad_x, state);
  state.grad_y = grad_y;
}

void RowLinear::backward_weight(const Pass& pass, const LinearState& state) {
  Workspace::Frame frame(pass.context.workspace);
  linear_.backward_weight(pass, {state.x, region_->all_rows(pass, state.grad_y, frame)});
}

void RowLinear::backward(const Pass& pass, TensorView grad_y, TensorView grad_x,
                         LinearState& state) {
  Workspace::Frame frame(pass.context.workspace);
  linear_.backward(pass, region_->all_rows(pass, grad_y, frame), grad_x, state);
  state.grad_y = grad_y;
}

}  // namespace plait
