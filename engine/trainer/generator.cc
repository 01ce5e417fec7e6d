#include "engine/trainer/generator.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/base/random.h"

namespace plait {
namespace {

/// A uniform number in (0, 1): draw `ordinal` of the stream of generated text.
double uniform(int64_t seed, int64_t ordinal) {
  const auto x = static_cast<uint64_t>(ordinal);
  const PhiloxBlock words =
      philox(stream_key("generate", static_cast<uint64_t>(seed)),
             {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32), 0u, 0u});
  return (words[0] + 0.5) * 0x1p-32;
}

}  // namespace

int32_t Generator::choose(const GenerateConfig& settings, const float* logits, int64_t vocabulary,
                          int64_t ordinal) {
  candidates_.clear();
  for (int64_t id = 0; id < vocabulary; ++id) {
    if (!std::isfinite(logits[id])) {
      throw Error("nonfinite_weights", "a logit is not finite").with("id", id);
    }
    candidates_.emplace_back(logits[id], static_cast<int32_t>(id));
  }
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (settings.temperature == 0) return candidates_[0].second;
  if (settings.top_k > 0 && settings.top_k < vocabulary) {
    candidates_.resize(static_cast<size_t>(settings.top_k));
  }
  const double largest = candidates_[0].first;
  double total = 0;
  for (auto& [value, id] : candidates_) {
    value = std::exp((value - largest) / settings.temperature);
    total += value;
  }
  double kept = 0;
  size_t count = 0;
  while (count < candidates_.size() && (count == 0 || kept < settings.top_p * total)) {
    kept += candidates_[count++].first;
  }
  double left = uniform(settings.seed, ordinal) * kept;
  for (size_t i = 0; i < count; ++i) {
    left -= candidates_[i].first;
    if (left < 0) return candidates_[i].second;
  }
  return candidates_[count - 1].second;
}

}  // namespace plait
