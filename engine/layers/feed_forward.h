// Feed-forward: up projection (gate and up fused in SwiGLU), activation, down projection.
#pragma once

#include <memory>

#include "engine/layers/linear.h"
#include "kernels/ops/activation.h"

namespace plait {

/// Buffers are made with the engine for the largest micro-batch.
struct FeedForwardState {
  TensorView u;  ///< [rows, F] or [rows, 2F]
  TensorView y;  ///< [rows, F], input of the down projection
  LinearState up, down;
};

class FeedForward final : public Layer {
 public:
  /// `width`: F, local.
  FeedForward(ActivationKind kind, int64_t width, std::unique_ptr<LinearLayer> up,
              std::unique_ptr<LinearLayer> down);

  void prepare(OpContext& context, int64_t max_rows) override;
  void weights_changed(OpContext& context) override;

  FeedForwardState make_state(StateArena& arena, DType dtype, int64_t max_rows) const;
  int64_t up_width() const { return kind_ == ActivationKind::kSwiglu ? 2 * width_ : width_; }

  /// x [stream rows, H] → delta [stream rows, H], before bias and dropout of the output.
  void forward(const Pass& pass, TensorView x, TensorView delta, FeedForwardState& state);
  /// grad_u [rows, up_width] is the caller's buffer; it and grad_delta must stay until
  /// backward_weight. grad_x [stream rows, H] is overwritten.
  void backward_input(const Pass& pass, TensorView grad_delta, TensorView grad_u, TensorView grad_x,
                      FeedForwardState& state);
  void backward_weight(const Pass& pass, const FeedForwardState& state);
  /// Both parts.
  void backward(const Pass& pass, TensorView grad_delta, TensorView grad_u, TensorView grad_x,
                FeedForwardState& state);

 private:
  /// The gradient of y: its own memory, or that of u where the activation works in place.
  TensorView make_grad_y(const Pass& pass, TensorView grad_u, Workspace::Frame& frame) const;

  ActivationKind kind_;
  int64_t width_;
  std::unique_ptr<LinearLayer> up_, down_;
};

}  // namespace plait
