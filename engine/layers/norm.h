// Norm of the residual stream, with the residual add before it; either may be left out.
#pragma once

#include "engine/layers/layer.h"
#include "engine/layers/parameter.h"
#include "kernels/ops/residual_norm.h"

namespace plait {

/// Borrowed views of what backward reads.
struct NormState {
  TensorView sum;         ///< [rows, H] residual dtype
  TensorView statistics;  ///< [rows, 2] float32
};

/// sum = x + dropout(delta + bias); y = norm(sum).
class ResidualNorm final : public Layer {
 public:
  struct Options {
    NormKind kind = NormKind::kLayer;
    double epsilon = 1e-5;
    Parameter* weight = nullptr;      ///< null: the add alone
    Parameter* norm_bias = nullptr;   ///< null: none
    Parameter* delta_bias = nullptr;  ///< bias of the row linear that made delta; null: none
    DropoutSite dropout;
  };
  explicit ResidualNorm(const Options& options) : options_(options) {}

  void prepare(OpContext&, int64_t) override {}
  void weights_changed(OpContext&) override {}

  /// x, sum [rows, H]; delta may be absent (then sum is x). y absent: the add alone. `state` names
  /// sum and where the statistics go.
  void forward(const Pass& pass, TensorView x, TensorView delta, TensorView y,
               NormState& state) const;
  /// grad [rows, H] residual dtype holds the gradient of sum from later layers and becomes that of
  /// x; with `is_first_gradient` it is only written. grad_y absent: the add alone. grad_delta
  /// [rows, H] compute dtype, or absent. Vector gradients are done here.
  void backward(const Pass& pass, TensorView grad_y, TensorView grad, bool is_first_gradient,
                TensorView grad_delta, const NormState& state) const;

 private:
  Options options_;
};

}  // namespace plait
