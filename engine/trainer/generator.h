// Choosing the next token from logits: temperature, top-k, top-p, with counter-based random
// numbers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/config/settings.h"

namespace plait {

class Generator {
 public:
  explicit Generator(int64_t vocabulary) { candidates_.reserve(static_cast<size_t>(vocabulary)); }

  /// Draw number `ordinal` (from 0) under the settings' seed; logits [vocabulary]. Temperature 0
  /// takes the likeliest, the lowest id on ties. Throws OUT_OF_RANGE/nonfinite_weights when a logit
  /// is not finite.
  int32_t choose(const GenerateConfig& settings, const float* logits, int64_t vocabulary,
                 int64_t ordinal);

 private:
  std::vector<std::pair<double, int32_t>> candidates_;
};

}  // namespace plait
