#include "engine/planner/flops.h"

namespace plait {
namespace {

double flops_factor(int64_t size) { return static_cast<double>(size); }

}  // namespace

double layer_flops(const ModelConfig& m, int64_t sequence) {
  const double s = flops_factor(sequence), h = flops_factor(m.hidden);
  const double heads = flops_factor(m.heads * m.head_size),
               keys = flops_factor(m.key_value_heads * m.head_size);
  const double products = m.family == FamilyChoice::kGpt2 ? 2.0 : 3.0;
  const double linear =
      2.0 * s * (2.0 * h * heads + 2.0 * h * keys + products * h * flops_factor(m.feed_forward));
  const double attention = 4.0 * s * s * heads;
  return linear + attention;
}

double head_flops(const ModelConfig& m, int64_t sequence) {
  return 2.0 * flops_factor(sequence) * flops_factor(m.hidden) * flops_factor(m.vocab_size);
}

}  // namespace plait
