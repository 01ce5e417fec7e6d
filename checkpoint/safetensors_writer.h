// Writing safetensors files. Equal tensors give equal bytes: keys sorted, header padded with spaces
// to a multiple of 8, data in name order without gaps, `__metadata__` {"format":"pt"}.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/env.h"
#include "kernels/base/tensor.h"

namespace plait {

struct SafetensorsSpec {
  std::string name;
  Shape shape;
};

/// Adds up the exact size of a file while tensors are added in name order.
class SafetensorsSize {
 public:
  explicit SafetensorsSize(DType dtype) : dtype_(dtype) {}
  void add(const SafetensorsSpec& spec);
  int64_t file_bytes() const;
  int64_t data_bytes() const { return data_bytes_; }

 private:
  DType dtype_;
  int64_t text_bytes_ = 0, data_bytes_ = 0;
};

/// Fills one new file. One thread.
class SafetensorsWriter {
 public:
  /// Called with the bytes of each chunk after it was written; may throw to stop.
  using OnChunk = std::function<void(int64_t bytes)>;

  /// Writes the header at once. `dtype` is one of the three float types; `file` outlives this.
  SafetensorsWriter(File& file, std::vector<SafetensorsSpec> tensors, DType dtype,
                    OnChunk on_chunk);

  /// Writes one whole tensor, narrowed to nearest even. NaN stays NaN; a finite value that would
  /// become infinite is `dtype_overflow` with tensor, index and value. Any order, each name once.
  void write(const std::string& name, const float* values);

  /// Checks that every tensor was written, and syncs the file.
  void finish();

 private:
  struct Slot {
    SafetensorsSpec spec;
    int64_t offset = 0;
    bool is_written = false;
  };
  File& file_;
  DType dtype_;
  OnChunk on_chunk_;
  std::vector<Slot> slots_;
  int64_t file_bytes_ = 0;
};

}  // namespace plait
