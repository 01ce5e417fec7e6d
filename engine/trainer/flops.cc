#include "engine/trainer/flops.h"

namespace plait {
namespace {

double real(int64_t value) { return static_cast<double>(value); }

}  // namespace

double layer_flops(const ModelConfig& m, int64_t sequence) {
  const double s = real(sequence), h = real(m.hidden);
  const double heads = real(m.heads * m.head_size), keys = real(m.key_value_heads * m.head_size);
  const double products = m.family == FamilyChoice::kGpt2 ? 2.0 : 3.0;
  const double linear =
      2.0 * s * (2.0 * h * heads + 2.0 * h * keys + products * h * real(m.feed_forward));
  const double attention = 4.0 * s * s * heads;
  return linear + attention;
}

double head_flops(const ModelConfig& m, int64_t sequence) {
  return 2.0 * real(sequence) * real(m.hidden) * real(m.vocab_size);
}

}  // namespace plait
