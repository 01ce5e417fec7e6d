// Moves the elements of a slice, as they pass by in row-major order, to where a target wants them.
#pragma once

#include <array>
#include <cstdint>

#include "checkpoint/store/step_reader.h"

namespace plait {

/// One (slice, target) pair. Neighbouring dims that both hold whole are taken as one, so what is
/// copied at once is as long as it can be.
class ScatterCursor {
 public:
  /// Slice and target share elements of a tensor of `shape`.
  ScatterCursor(const Slice& slice, const Shape& shape, const ReadTarget* target);

  /// Elements [first, first + count) of the slice, stored at `data`. Calls come in order, without
  /// gaps.
  void feed(const char* data, int64_t first, int64_t count);
  int64_t filled() const { return filled_; }   ///< elements so far
  uint64_t digest() const { return digest_; }  ///< of their stored bits

 private:
  static constexpr int kMaxDims = Shape::kMaxDims;
  void next_row();
  void take(const char* data, int64_t count);

  const ReadTarget* target_;
  DType dtype_;
  int dims_ = 0;                           ///< after neighbours were joined
  std::array<int64_t, kMaxDims> size_{};   ///< of the shared part
  std::array<int64_t, kMaxDims> place_{};  ///< of the row, but for the last dim
  std::array<int64_t, kMaxDims> slice_stride_{}, target_stride_{}, tensor_stride_{};
  int64_t in_slice_ = 0, in_target_ = 0, in_tensor_ = 0;  ///< first element of the row
  int64_t done_ = 0;                                      ///< elements of the row
  bool is_done_ = false;
  int64_t filled_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace plait
