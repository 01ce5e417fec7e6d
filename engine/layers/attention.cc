#include "engine/layers/attention.h"

#include <utility>

#include "kernels/ops/rotary.h"

namespace plait {

void fill_rotary_table(double base, TensorView table) { make_rotary_table(base, table); }

Attention::Attention(const Options& options, std::unique_ptr<LinearLayer> projection,
                     std::unique_ptr<LinearLayer> output)
    : options_(options), projection_(std::move(projection)), output_(std::move(output)) {}

void Attention::prepare(OpContext& context, int64_t max_rows) {
  projection_->prepare(context, max_rows);
  output_->prepare(context, max_rows);
}

void Attention::weights_changed(OpContext& context) {
  projection_->weights_changed(context);
  output_->weights_changed(context);
}

int64_t Attention::projection_width() const {
  return (options_.heads + 2 * options_.key_value_heads) * options_.head_size;
}

AttentionState Attention::make_state(StateArena& arena, DType dtype, int64_t max_rows) const {
  AttentionState state;
  state.qkv = arena.tensor(dtype, {max_rows, projection_width()});
  state.y = arena.tensor(dtype, {max_rows, output_width()});
  state.log_sum = arena.tensor(DType::kFloat32, {max_rows * options_.heads});
  return state;
}

AttentionShape Attention::shape(const Pass& pass) const {
  return {pass.batch,         pass.sequence,      options_.heads, options_.key_value_heads,
          options_.head_size, options_.first_head};
}

void Attention::rotate(const Pass& pass, TensorView qkv, bool is_inverse) const {
  if (!options_.rotary_table.is_present()) return;
  Rotary arguments;
  arguments.qkv = qkv;
  arguments.heads = options_.heads;
  arguments.key_value_heads = options_.key_value_heads;
  arguments.head_size = options_.head_size;
  arguments.table = options_.rotary_table;
  arguments.positions = pass.positions;
  arguments.sequence = pass.sequence;
  arguments.is_inverse = is_inverse;
  rotary(pass.context, arguments);
}

void Attention::forward(const Pass& pass, TensorView x, TensorView delta, AttentionState& state) {
  const TensorView qkv = first_rows(state.qkv, pass.rows());
  projection_->forward(pass, x, qkv, state.projection);
  rotate(pass, qkv, false);
  AttentionForward arguments;
  arguments.shape = shape(pass);
  arguments.qkv = qkv;
  arguments.first_visible = pass.first_visible;
  arguments.dropout = options_.probabilities.at(pass);
  arguments.y = first_rows(state.y, pass.rows());
  arguments.log_sum = state.log_sum.reshaped({pass.batch, options_.heads, pass.sequence});
  attention_forward(pass.context, arguments);
  output_->forward(pass, arguments.y, delta, state.output);
}

void Attention::backward_middle(const Pass& pass, TensorView grad_y, TensorView grad_qkv,
                                const AttentionState& state) const {
  AttentionBackward arguments;
  arguments.shape = shape(pass);
  arguments.qkv = first_rows(state.qkv, pass.rows());
  arguments.first_visible = pass.first_visible;
  arguments.dropout = options_.probabilities.at(pass);
  arguments.y = first_rows(state.y, pass.rows());
  arguments.log_sum = state.log_sum.reshaped({pass.batch, options_.heads, pass.sequence});
  arguments.grad_y = grad_y;
  arguments.grad_qkv = grad_qkv;
  attention_backward(pass.context, arguments);
  rotate(pass, grad_qkv, true);
}

void Attention::backward_input(const Pass& pass, TensorView grad_delta, TensorView grad_qkv,
                               TensorView grad_x, AttentionState& state) {
  Workspace::Frame frame(pass.context.workspace);
  const TensorView grad_y = frame.tensor(state.y.dtype, {pass.rows(), output_width()});
  output_->backward_input(pass, grad_delta, grad_y, state.output);
  backward_middle(pass, grad_y, grad_qkv, state);
  projection_->backward_input(pass, grad_qkv, grad_x, state.projection);
}

void Attention::backward_weight(const Pass& pass, const AttentionState& state) {
  output_->backward_weight(pass, state.output);
  projection_->backward_weight(pass, state.projection);
}

void Attention::backward(const Pass& pass, TensorView grad_delta, TensorView grad_qkv,
                         TensorView grad_x, AttentionState& state) {
  Workspace::Frame frame(pass.context.workspace);
  const TensorView grad_y = frame.tensor(state.y.dtype, {pass.rows(), output_width()});
  output_->backward(pass, grad_delta, grad_y, state.output);
  backward_middle(pass, grad_y, grad_qkv, state);
  projection_->backward(pass, grad_qkv, grad_x, state.projection);
}

}  // namespace plait
