// Small models in many layouts, for tests of faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/equivalence/matrix.h"
#include "tests/support/tiny_model.h"

namespace plait::test {

inline constexpr int64_t kFaultVocabulary = 200, kFaultSequence = 8, kFaultBatch = 8;

/// A layout of these degrees; the rest as by default.
inline Layout degrees(int64_t tensor, int64_t pipeline, int64_t data, int64_t zero = 0) {
  Layout layout;
  layout.tensor = tensor;
  layout.pipeline = pipeline;
  layout.data = data;
  layout.zero = zero;
  return layout;
}

inline Layout with_sequence_parallel(Layout layout) {
  layout.is_sequence_parallel = true;
  return layout;
}

inline Layout with_chunks(Layout layout, int64_t interleave) {
  layout.interleave = interleave;
  return layout;
}

inline Layout with_schedule(Layout layout, const std::string& schedule) {
  layout.schedule = schedule;
  return layout;
}

/// GPT-2 of 4 layers × 16, 4 heads, batch 8 of 8 tokens; 200 ids, so that at t = 2 and 4 two shards
/// have real ones. `keys` are set on top.
inline Config fault_config(const Layout& layout, const Keys& keys = {}) {
  Keys all = {{"model.layers", "4"},
              {"model.hidden", "16"},
              {"model.feed_forward", "32"},
              {"model.vocab_size", std::to_string(kFaultVocabulary)},
              {"model.sequence_length", std::to_string(kFaultSequence)},
              {"train.global_batch", std::to_string(kFaultBatch)},
              {"threads", "1"}};
  const Keys of_layout = layout.keys();
  all.insert(all.end(), of_layout.begin(), of_layout.end());
  all.insert(all.end(), keys.begin(), keys.end());
  return tiny_config(all);
}

/// Rows [count, s + 1] for it.
inline std::vector<int32_t> fault_rows(uint64_t seed, int64_t count = kFaultBatch) {
  return random_rows(count, kFaultSequence + 1, kFaultVocabulary, seed);
}

/// Every how many cases of a list are run: where all memory or all locks are watched, a part must
/// do.
#ifdef PLAIT_MATRIX_STEP
inline constexpr size_t kCaseStep = PLAIT_MATRIX_STEP;
#else
inline constexpr size_t kCaseStep = 1;
#endif

/// Steps of a run in which something may drift.
inline constexpr int64_t kDriftSteps = kCaseStep == 1 ? 10 : 3;

/// Layouts of up to 8 ranks in which every axis and every ZeRO stage meets the others.
inline std::vector<Layout> fault_layouts() {
  const std::vector<Layout> all = {
      degrees(2, 2, 2, 0),
      degrees(1, 1, 2, 3),
      with_sequence_parallel(degrees(2, 1, 2, 2)),
      degrees(1, 2, 2, 1),
      with_chunks(degrees(1, 2, 2, 2), 2),
      degrees(2, 1, 1),
      degrees(1, 4, 2, 3),
      with_schedule(with_sequence_parallel(degrees(2, 2, 1)), "zero_bubble"),
      degrees(1, 1, 2, 0),
      with_sequence_parallel(degrees(4, 1, 2, 1)),
      degrees(1, 1, 4, 2),
      with_schedule(degrees(1, 2, 2, 3), "gpipe"),
      degrees(1, 2, 1),
      degrees(2, 2, 2, 3),
      degrees(1, 1, 2, 1),
      with_chunks(with_sequence_parallel(degrees(2, 2, 1)), 2),
  };
  std::vector<Layout> some;
  for (size_t i = 0; i < all.size(); i += kCaseStep) some.push_back(all[i]);
  return some;
}

}  // namespace plait::test
