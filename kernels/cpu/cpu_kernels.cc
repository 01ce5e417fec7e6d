#include "kernels/cpu/cpu_kernels.h"

#include "kernels/cpu/attention.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/reference/reference_kernels.h"

namespace plait {

Kernels cpu_kernels() {
  Kernels kernels = reference_kernels();
  const std::vector<const LinearKernel*> linear = linear_kernels();
  kernels.linear.insert(kernels.linear.begin(), linear.begin(), linear.end());
  const std::vector<const AttentionKernel*> attention = attention_kernels();
  kernels.attention.insert(kernels.attention.begin(), attention.begin(), attention.end());
  kernels.residual_norm.insert(kernels.residual_norm.begin(), &vector_residual_norm());
  kernels.activation.insert(kernels.activation.begin(), &vector_activation());
  kernels.rotary.insert(kernels.rotary.begin(), &vector_rotary());
  kernels.embedding.insert(kernels.embedding.begin(), &vector_embedding());
  kernels.cross_entropy.insert(kernels.cross_entropy.begin(), &vector_cross_entropy());
  kernels.adamw.insert(kernels.adamw.begin(), &vector_adamw());
  kernels.span.insert(kernels.span.begin(), &vector_span());
  kernels.normal.insert(kernels.normal.begin(), &vector_normal());
  return kernels;
}

}  // namespace plait
