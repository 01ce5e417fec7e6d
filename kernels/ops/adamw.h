// AdamW (1711.05101) over a flat span, with clip and cast in the same pass:
//   g ← fp32(gradient_scale · gradient)
//   m ← β₁m + (1−β₁)g; s ← β₂s + (1−β₂)g²
//   θ ← θ − lr · ( (m/correction1) / (√(s/correction2) + ε) + decay·θ ), old θ on the right
//   weight ← round(θ)
// The result of an element does not depend on how the span is cut.
#pragma once

#include "kernels/ops/context.h"

namespace plait {

struct AdamW {
  TensorView master;    ///< [n] float32
  TensorView moment1;   ///< [n] float32
  TensorView moment2;   ///< [n] float32
  TensorView gradient;  ///< [n] float32, read only
  TensorView weight;    ///< [n] compute dtype; may be master's memory when float32
  float gradient_scale = 1.0f;
  float lr = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float decay = 0.0f;
  float correction1 = 1.0f;  ///< 1 − β₁ⁿ, from n in fp64
  float correction2 = 1.0f;  ///< 1 − β₂ⁿ
};

class AdamWKernel {
 public:
  virtual ~AdamWKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(DType weight, IsaLevel isa) const = 0;
  virtual void run(OpContext& context, const AdamW& arguments) const = 0;
};

void adamw(OpContext& context, const AdamW& arguments);

}  // namespace plait
