// The one object of each reference implementation; reference_kernels.cc lists them.
#pragma once

#include "kernels/ops/kernels.h"

namespace plait {

const LinearKernel& reference_linear();
const ResidualNormKernel& reference_residual_norm();
const ActivationKernel& reference_activation();
const RotaryKernel& reference_rotary();
const AttentionKernel& reference_attention();
const EmbeddingKernel& reference_embedding();
const CrossEntropyKernel& reference_cross_entropy();
const AdamWKernel& reference_adamw();
const SpanKernel& reference_span();
const NormalKernel& reference_normal();

}  // namespace plait
