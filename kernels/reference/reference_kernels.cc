#include "kernels/reference/reference_kernels.h"

#include "kernels/reference/reference_lists.h"

namespace plait {

Kernels reference_kernels() {
  return {.linear = {&reference_linear()},
          .residual_norm = {&reference_residual_norm()},
          .activation = {&reference_activation()},
          .rotary = {&reference_rotary()},
          .attention = {&reference_attention()},
          .embedding = {&reference_embedding()},
          .cross_entropy = {&reference_cross_entropy()},
          .adamw = {&reference_adamw()},
          .span = {&reference_span()},
          .normal = {&reference_normal()}};
}

}  // namespace plait
