#include "engine/layers/norm.h"

#include "kernels/base/mutation.h"

namespace plait {

void ResidualNorm::forward(const Pass& pass, TensorView x, TensorView delta, TensorView y,
                           NormState& state) const {
  ResidualNormForward arguments;
  arguments.kind = options_.kind;
  arguments.epsilon = static_cast<float>(options_.epsilon);
  arguments.x = x;
  arguments.sequence = pass.sequence;
  arguments.first_row = is_mutated(Mutation::kDropoutRowLocal) ? 0 : pass.first_row;
  if (delta.is_present()) {
    arguments.delta = delta;
    arguments.sum = state.sum;
    arguments.dropout = options_.dropout.at(pass);
    if (options_.delta_bias != nullptr) arguments.bias = options_.delta_bias->weight;
  } else {
    state.sum = x;
  }
  if (y.is_present()) {
    arguments.weight = options_.weight->weight;
    if (options_.norm_bias != nullptr) arguments.norm_bias = options_.norm_bias->weight;
    arguments.y = y;
    arguments.statistics = state.statistics;
  }
  residual_norm_forward(pass.context, arguments);
}

void ResidualNorm::backward(const Pass& pass, TensorView grad_y, TensorView grad,
                            bool is_first_gradient, TensorView grad_delta,
                            const NormState& state) const {
  ResidualNormBackward arguments;
  arguments.kind = options_.kind;
  arguments.sequence = pass.sequence;
  arguments.first_row = is_mutated(Mutation::kDropoutRowLocal) ? 0 : pass.first_row;
  arguments.mode = pass.mode;
  arguments.grad_x = grad;
  if (!is_first_gradient) arguments.grad_sum = grad;
  if (grad_y.is_present()) {
    arguments.grad_y = grad_y;
    arguments.sum = state.sum;
    arguments.statistics = state.statistics;
    arguments.weight = options_.weight->weight;
    arguments.grad_weight = options_.weight->gradient;
    if (options_.norm_bias != nullptr) arguments.grad_norm_bias = options_.norm_bias->gradient;
  }
  if (grad_delta.is_present()) {
    arguments.grad_delta = grad_delta;
    arguments.dropout = options_.dropout.at(pass);
    if (options_.delta_bias != nullptr) arguments.grad_bias = options_.delta_bias->gradient;
  }
  residual_norm_backward(pass.context, arguments);
}

}  // namespace plait
