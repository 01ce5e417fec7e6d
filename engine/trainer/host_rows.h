// Rows of a call: their checks, the engine's own copy of them, and that copy as the source of
// micro-batches.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/pipeline/executor.h"
#include "engine/trainer/batch.h"

namespace plait {

struct BatchLimits {
  int64_t rows = 0;        ///< exact number of rows, 0: any
  int64_t multiple = 1;    ///< rows must be a multiple of it: data · micro-batch
  int64_t sequence = 0;    ///< s
  int64_t vocabulary = 0;  ///< V
};

/// Shapes, presence and every value; throws `argument` naming the tensor and both numbers, or
/// `token_range` with tensor, sequence, position, value and vocabulary. Returns the rows.
int64_t check_batch(const Batch& batch, const BatchLimits& limits);

/// Rows in the engine's own memory. A rank may read them for a moment after a call that was given
/// up has returned, when the host's may be gone.
struct RowMemory {
  std::vector<int32_t> tokens, targets, documents;

  /// Room for so many elements of each, so that no step takes memory.
  void reserve(int64_t elements);
  /// A checked batch, copied; valid until the next copy.
  Batch copy(const Batch& batch);
};

/// Borrows the tensors of a checked batch; micro-batch 0 starts at row `first_row`.
class HostRows final : public MicroSource {
 public:
  HostRows(const Batch& batch, int64_t first_row, int64_t micro_batch, int64_t sequence)
      : batch_(batch), first_row_(first_row), micro_batch_(micro_batch), sequence_(sequence) {}

  bool fill(int64_t micro, const MicroBuffers& buffers) const override;

 private:
  void fill_row(int64_t row, int64_t offset, const MicroBuffers& buffers) const;

  const Batch batch_;
  int64_t first_row_;
  int64_t micro_batch_;
  int64_t sequence_;
};

}  // namespace plait
