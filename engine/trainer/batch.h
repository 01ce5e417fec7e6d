// A batch as its host gives it: borrowed int32 tensors, row-major.
#pragma once

#include <cstdint>

namespace plait {

/// Global: all rows of the step. Local: the rows of this process's spans.
enum class BatchScope : int32_t { kGlobal = 1, kLocal = 2 };

struct BatchTensor {
  const int32_t* data = nullptr;  ///< null: absent
  int64_t rows = 0;
  int64_t columns = 0;
};

/// Borrowed until the call that takes it returns, however it ends.
struct Batch {
  BatchScope scope = BatchScope::kGlobal;
  BatchTensor tokens;     ///< [rows, s + 1], or [rows, s] beside targets; ids in [0, V)
  BatchTensor targets;    ///< [rows, s]; ids in [0, V) or −1
  BatchTensor documents;  ///< shaped as tokens; non-negative, non-decreasing along a row
};

/// Flags of BatchSpec::needs.
inline constexpr int64_t kNeedsTokens = 1, kNeedsTargets = 2, kNeedsDocuments = 4;

/// What the next step expects.
struct BatchSpec {
  int64_t global_rows = 0;
  int64_t local_rows = 0;
  int64_t span_count = 0;
  int64_t sequence_length = 0;
  int64_t vocab_size = 0;
  int64_t first_sample = 0;
  int64_t needs = 0;
};

}  // namespace plait
