// Reading safetensors files: any part of a tensor, widened to fp32, by pread through a bounded
// buffer, so that a box of a tensor larger than memory can be had. Data need not be aligned.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_header.h"
#include "kernels/base/env.h"

namespace plait {

/// Rows and columns of a file tensor; a vector is one row.
struct FileRectangle {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_column = 0;
  int64_t columns = 0;
};

/// An open file with its parsed header. Any thread may read.
class SafetensorsFile {
 public:
  /// `invalid_file` unless a regular file; `invalid_field` for a defect of the header.
  SafetensorsFile(Files& files, const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  ///< by name
  const SafetensorsEntry* find(std::string_view name) const;                 ///< null if absent

  /// Elements [first, first + count) of `entry` in row-major order. F32, F16 and BF16 are exact;
  /// F64 is rounded to nearest even, and a finite value beyond fp32 is `dtype_overflow`.
  void read(const SafetensorsEntry& entry, int64_t first, int64_t count, float* out) const;

  /// A rectangle of a vector or matrix, row-major; `transpose` writes it column by column instead:
  /// out is then [columns, rows]. Extra memory: at most 4 MiB.
  void read_rectangle(const SafetensorsEntry& entry, const FileRectangle& rectangle, bool transpose,
                      float* out) const;

  /// Stored bytes [first, first + count) of `entry`.
  void read_bytes(const SafetensorsEntry& entry, int64_t first, int64_t count, void* out) const;

 private:
  std::unique_ptr<File> file_;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace plait
