// Feed-forward activations. GELU in its tanh form (1606.08415): y = ½u(1 + tanh(√(2/π)(u +
// 0.044715u³))). SwiGLU (2002.05202): u holds [gate; up] side by side, y = silu(gate) · up.
#pragma once

#include "kernels/ops/context.h"

namespace plait {

enum class ActivationKind { kGelu, kSwiglu };

struct ActivationForward {
  ActivationKind kind = ActivationKind::kGelu;
  TensorView u;  ///< [M, F] (GELU) or [M, 2F] (SwiGLU), compute dtype
  TensorView y;  ///< [M, F] compute dtype
};

struct ActivationBackward {
  ActivationKind kind = ActivationKind::kGelu;
  TensorView u;       ///< as in forward
  TensorView grad_y;  ///< [M, F] compute dtype
  TensorView grad_u;  ///< shape of u, compute dtype, overwritten; GELU: may be grad_y's memory
};

class ActivationKernel {
 public:
  virtual ~ActivationKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(DType dtype, IsaLevel isa) const = 0;
  virtual void forward(OpContext& context, const ActivationForward& arguments) const = 0;
  virtual void backward(OpContext& context, const ActivationBackward& arguments) const = 0;
};

void activation_forward(OpContext& context, const ActivationForward& arguments);
void activation_backward(OpContext& context, const ActivationBackward& arguments);

}  // namespace plait
