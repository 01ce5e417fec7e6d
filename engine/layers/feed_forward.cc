#include "engine/layers/feed_forward.h"

#include <utility>

namespace plait {

FeedForward::FeedForward(ActivationKind kind, int64_t width, std::unique_ptr<LinearLayer> up,
                         std::unique_ptr<LinearLayer> down)
    : kind_(kind), width_(width), up_(std::move(up)), down_(std::move(down)) {}

void FeedForward::prepare(OpContext& context, int64_t max_rows) {
  up_->prepare(context, max_rows);
  down_->prepare(context, max_rows);
}

void FeedForward::weights_changed(OpContext& context) {
  up_->weights_changed(context);
  down_->weights_changed(context);
}

FeedForwardState FeedForward::make_state(StateArena& arena, DType dtype, int64_t max_rows) const {
  FeedForwardState state;
  state.u = arena.tensor(dtype, {max_rows, up_width()});
  state.y = arena.tensor(dtype, {max_rows, width_});
  return state;
}

void FeedForward::forward(const Pass& pass, TensorView x, TensorView delta,
                          FeedForwardState& state) {
  const TensorView u = first_rows(state.u, pass.rows()), y = first_rows(state.y, pass.rows());
  up_->forward(pass, x, u, state.up);
  activation_forward(pass.context, {kind_, u, y});
  down_->forward(pass, y, delta, state.down);
}

TensorView FeedForward::make_grad_y(const Pass& pass, TensorView grad_u,
                                    Workspace::Frame& frame) const {
  const bool is_in_place = kind_ == ActivationKind::kGelu;
  return is_in_place ? grad_u : frame.tensor(grad_u.dtype, {pass.rows(), width_});
}

void FeedForward::backward_input(const Pass& pass, TensorView grad_delta, TensorView grad_u,
                                 TensorView grad_x, FeedForwardState& state) {
  Workspace::Frame frame(pass.context.workspace);
  const TensorView grad_y = make_grad_y(pass, grad_u, frame);
  down_->backward_input(pass, grad_delta, grad_y, state.down);
  activation_backward(pass.context, {kind_, first_rows(state.u, pass.rows()), grad_y, grad_u});
  up_->backward_input(pass, grad_u, grad_x, state.up);
}

void FeedForward::backward_weight(const Pass& pass, const FeedForwardState& state) {
  down_->backward_weight(pass, state.down);
  up_->backward_weight(pass, state.up);
}

void FeedForward::backward(const Pass& pass, TensorView grad_delta, TensorView grad_u,
                           TensorView grad_x, FeedForwardState& state) {
  Workspace::Frame frame(pass.context.workspace);
  const TensorView grad_y = make_grad_y(pass, grad_u, frame);
  down_->backward(pass, grad_delta, grad_y, state.down);
  activation_backward(pass.context, {kind_, first_rows(state.u, pass.rows()), grad_y, grad_u});
  up_->backward(pass, grad_u, grad_x, state.up);
}

}  // namespace plait
