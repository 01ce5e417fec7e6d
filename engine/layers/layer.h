// The contract of all layers.
//
// `forward` fills a saved-state object, one per micro-batch in flight; the backward pass consumes
// it. Backward comes in two parts: `backward_input` gives the gradient of the input and the
// gradients of small vectors (norms, biases, positions); `backward_weight` gives those of matrices
// from what the state still holds. Buffers named by a state stay untouched from forward until its
// last use. A layer never synchronises, never allocates in a pass, and does not know that other
// ranks exist.
#pragma once

#include <cstdint>

#include "kernels/base/random.h"
#include "kernels/ops/context.h"

namespace plait {

/// What one micro-batch pass knows. B and S are those of the micro-batch; rows = B·S, sample-major.
struct Pass {
  OpContext& context;
  int64_t batch = 0;                             ///< B
  int64_t sequence = 0;                          ///< S
  const int32_t* positions = nullptr;            ///< [rows]; null: row m mod S
  const int32_t* first_visible = nullptr;        ///< [rows]; null: a row sees all before it
  int64_t first_sample = 0;                      ///< ordinal in the run of sample 0: keys dropout
  bool is_training = false;                      ///< dropout is on
  GradientMode mode = GradientMode::kOverwrite;  ///< first micro-batch of a step overwrites
  /// Outside the linear pairs (norms, dropout, residual stream) only rows [first_row, first_row +
  /// stream_rows()) of the micro-batch pass here: one of `row_parts` equal parts.
  int64_t first_row = 0;
  int64_t row_parts = 1;

  int64_t rows() const { return batch * sequence; }
  int64_t stream_rows() const { return rows() / row_parts; }
  /// Positions of the stream's rows.
  const int32_t* stream_positions() const {
    return positions != nullptr ? positions + first_row : nullptr;
  }
};

/// One place where elements are dropped.
struct DropoutSite {
  PhiloxKey key;
  double rate = 0;

  Dropout at(const Pass& pass) const {
    return pass.is_training && rate > 0 ? Dropout::make(key, rate, pass.first_sample) : Dropout{};
  }
};

/// The first `rows` rows of a buffer made for more.
inline TensorView first_rows(const TensorView& buffer, int64_t rows) {
  return buffer.is_present() ? buffer.slice_rows(0, rows) : buffer;
}

/// Hands out the buffers of saved states when an engine is created.
class StateArena {
 public:
  virtual ~StateArena() = default;
  virtual TensorView tensor(DType dtype, const Shape& shape) = 0;
};

class Layer {
 public:
  virtual ~Layer() = default;
  /// Called once, after the parameters have memory: makes plans for at most `max_rows` rows.
  virtual void prepare(OpContext& context, int64_t max_rows) = 0;
  /// Called after every change of the weights.
  virtual void weights_changed(OpContext& context) = 0;
};

}  // namespace plait
