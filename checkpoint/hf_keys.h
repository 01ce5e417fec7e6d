// Every key of a gpt2 or llama config.json that Plait knows, and what becomes of it.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/model_facts.h"

namespace plait {

enum class HfKeyUse {
  kUsed,         ///< becomes a model key, or is tested by code of its own
  kDefaultOnly,  ///< changes the function: refused unless null or `standard`
  kDropout,      ///< a training setting: logged, not imported
  kHarmless,     ///< does not change the function
};

struct HfKey {
  const char* name;
  HfKeyUse use;
  const char* standard = "null";  ///< JSON text of the value that is built
};

/// Keys of both families, then the family's own.
std::vector<HfKey> hf_keys(ModelFacts::Family family);

/// Null for a key that is not known.
const HfKey* find_hf_key(const std::vector<HfKey>& keys, std::string_view name);

/// Limits on sizes from a file. Products of them fit in 63 bits, and a list of a model's tensors
/// stays small.
struct HfLimits {
  static constexpr int64_t kLayers = 1 << 13;
  static constexpr int64_t kWidth = 1 << 20;        ///< hidden, heads
  static constexpr int64_t kFeedForward = 1 << 22;  ///< also heads · head size
  static constexpr int64_t kVocabulary = (int64_t{1} << 31) - 1;
  static constexpr int64_t kSequence = 1 << 30;
  static constexpr int64_t kConfigBytes = 1 << 22;
  static constexpr int64_t kIndexBytes = 1 << 24;
  static constexpr int64_t kShards = 1 << 12;
};

}  // namespace plait
