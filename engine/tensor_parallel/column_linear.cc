#include "engine/tensor_parallel/column_linear.h"

#include "kernels/base/mutation.h"

namespace plait {

ColumnLinear::ColumnLinear(Parameter* weight, Parameter* bias, const TensorGroup& group)
    : linear_(weight, bias), region_(make_stream_region(group)) {}

void ColumnLinear::prepare(OpContext& context, int64_t max_rows) {
  linear_.prepare(context, max_rows);
}

void ColumnLinear::weights_changed(OpContext& context) { linear_.weights_changed(context); }

void ColumnLinear::forward(const Pass& pass, TensorView x, TensorView y, LinearState& state) {
  Workspace::Frame frame(pass.context.workspace);
  const TensorView all = region_->all_rows(pass, x, frame);
  linear_.forward(pass, all, y, state);
  state = {x, {}};
}

void ColumnLinear::backward_input(const Pass& pass, TensorView grad_y, TensorView grad_x,
                                  LinearState& state) {
  Workspace::Frame frame(pass.context.workspace);
  const TensorView term = region_->term(pass, grad_x, frame);
  linear_.backward_input(pass, grad_y, term, state);
  region_->sum(pass, term, grad_x);
}

void ColumnLinear::backward_weight(const Pass& pass, const LinearState& state) {
  Workspace::Frame frame(pass.context.workspace);
  linear_.backward_weight(pass, {region_->all_rows(pass, state.x, frame), state.grad_y});
}

void ColumnLinear::backward(const Pass& pass, TensorView grad_y, TensorView grad_x,
                            LinearState& state) {
  Workspace::Frame frame(pass.context.workspace);
  const TensorView x = region_->start_all_rows(pass, state.x, frame);
  const TensorView term = region_->term(pass, grad_x, frame);
  linear_.backward_input(pass, grad_y, term, state);
  region_->finish();
  if (!is_mutated(Mutation::kColumnSumSkipped)) region_->start_sum(pass, term, grad_x);
  linear_.backward_weight(pass, {x, grad_y});
  region_->finish();
}

}  // namespace plait
