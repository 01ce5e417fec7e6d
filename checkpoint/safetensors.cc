#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/base/dtype.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr int64_t kChunkBytes = 1 << 20;  // of stored bytes read at once
constexpr int64_t kMaxHole = 1 << 16;     // a longer one between rows is skipped, not read over

template <class T>
T load(const char* raw, int64_t index) {
  T value;
  std::memcpy(&value, raw + index * static_cast<int64_t>(sizeof(T)), sizeof value);
  return value;
}

float narrow(double value, const SafetensorsEntry& entry, int64_t index) {
  const auto result = static_cast<float>(value);
  if (std::isinf(result) && std::isfinite(value)) {
    throw Error("dtype_overflow", "a value is beyond float32")
        .with("tensor", entry.name)
        .with("index", index)
        .with("value", value);
  }
  return result;
}

/// `index` is the place of the first element in the whole tensor.
void widen(const SafetensorsEntry& entry, const char* raw, int64_t index, int64_t count,
           float* out) {
  switch (entry.dtype) {
    case FileDType::kF32:
      std::memcpy(out, raw, static_cast<size_t>(count) * 4);
      return;
    case FileDType::kF16:
      for (int64_t i = 0; i < count; ++i) out[i] = to_float(Float16{load<uint16_t>(raw, i)});
      return;
    case FileDType::kBF16:
      for (int64_t i = 0; i < count; ++i) out[i] = to_float(BFloat16{load<uint16_t>(raw, i)});
      return;
    case FileDType::kF64:
      for (int64_t i = 0; i < count; ++i) out[i] = narrow(load<double>(raw, i), entry, index + i);
      return;
    case FileDType::kOther:
      break;
  }
  check(false, "an element type that widens to float32");
}

void require_readable(const SafetensorsEntry& entry) {
  if (entry.dtype != FileDType::kOther) return;
  throw Error("unsupported_model", "an element type that no model is read from")
      .with("tensor", entry.name)
      .with("dtype", entry.type_name());
}

/// A piece of a rectangle, in columns and rows relative to it.
struct Piece {
  int64_t row, rows, column, columns;
};

/// Copies `block`, row-major [piece.rows, piece.columns], into `out`, [columns, rows] of the
/// whole rectangle. Tiles keep both sides in cache.
void scatter_transposed(const float* block, const Piece& piece, int64_t all_rows, float* out) {
  constexpr int64_t kTile = 32;
  for (int64_t c0 = 0; c0 < piece.columns; c0 += kTile) {
    const int64_t c1 = std::min(c0 + kTile, piece.columns);
    for (int64_t r0 = 0; r0 < piece.rows; r0 += kTile) {
      const int64_t r1 = std::min(r0 + kTile, piece.rows);
      for (int64_t c = c0; c < c1; ++c) {
        float* to = out + (piece.column + c) * all_rows + piece.row;
        for (int64_t r = r0; r < r1; ++r) to[r] = block[r * piece.columns + c];
      }
    }
  }
}

void scatter_straight(const float* block, const Piece& piece, int64_t all_columns, float* out) {
  for (int64_t r = 0; r < piece.rows; ++r) {
    std::memcpy(out + (piece.row + r) * all_columns + piece.column, block + r * piece.columns,
                static_cast<size_t>(piece.columns) * sizeof(float));
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(Files& files, const std::string& path)
    : file_(files.open_read(path)) {
  const int64_t file_bytes = file_->size();
  uint64_t header_bytes = 0;
  if (file_bytes < 10) {
    throw Error("invalid_field", "the file is too short for a header")
        .with("file", path)
        .with("field", "file bytes")
        .with("value", file_bytes)
        .with("limit", 10);
  }
  file_->read_exactly(&header_bytes, 8, 0, "invalid_field");
  const int64_t limit = std::min(SafetensorsLimits::kHeaderBytes, file_bytes - 8);
  if (header_bytes < 2 || header_bytes > static_cast<uint64_t>(limit)) {
    throw Error("invalid_field", "the header's length is out of range")
        .with("file", path)
        .with("field", "header bytes")
        .with("value", header_bytes)
        .with("minimum", 2)
        .with("limit", limit);
  }
  std::string header(static_cast<size_t>(header_bytes), '\0');
  const auto bytes = static_cast<int64_t>(header_bytes);
  file_->read_exactly(header.data(), bytes, 8, "invalid_field");
  entries_ = parse_safetensors_header(header, 8 + bytes, file_bytes - 8 - bytes, path);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto place = std::lower_bound(
      entries_.begin(), entries_.end(), name,
      [](const SafetensorsEntry& entry, std::string_view key) { return entry.name < key; });
  return place != entries_.end() && place->name == name ? &*place : nullptr;
}

void SafetensorsFile::read_bytes(const SafetensorsEntry& entry, int64_t first, int64_t count,
                                 void* out) const {
  check(first >= 0 && count >= 0 && first <= entry.bytes - count, "bytes within the tensor");
  if (count > 0) file_->read_exactly(out, count, entry.offset + first, "corrupt");
}

void SafetensorsFile::read(const SafetensorsEntry& entry, int64_t first, int64_t count,
                           float* out) const {
  require_readable(entry);
  const int64_t size = entry.element_bytes();
  if (entry.dtype == FileDType::kF32) {
    read_bytes(entry, first * size, count * size, out);
    return;
  }
  if (count <= 0) return;
  const int64_t step = kChunkBytes / size;
  std::vector<char> raw(static_cast<size_t>(std::min(count, step) * size));
  for (int64_t done = 0; done < count; done += step) {
    const int64_t part = std::min(step, count - done);
    read_bytes(entry, (first + done) * size, part * size, raw.data());
    widen(entry, raw.data(), first + done, part, out + done);
  }
}

void SafetensorsFile::read_rectangle(const SafetensorsEntry& entry, const FileRectangle& rectangle,
                                     bool transpose, float* out) const {
  const int64_t columns = entry.dims == 2 ? entry.size[1] : entry.size[0];
  const int64_t wide = rectangle.columns, size = entry.element_bytes();
  require_readable(entry);
  check(entry.dims == 1 || entry.dims == 2, "a rectangle of a vector or matrix");
  check(rectangle.first_column >= 0 && wide <= columns - rectangle.first_column,
        "columns within the tensor");
  if (rectangle.rows == 0 || wide == 0) return;
  if (!transpose && (wide == columns || rectangle.rows == 1)) {
    const int64_t first = rectangle.first_row * columns + rectangle.first_column;
    read(entry, first, rectangle.rows * wide, out);
    return;
  }
  const int64_t chunk = kChunkBytes / size;
  const bool skips_holes = (columns - wide) * size > kMaxHole;
  const int64_t step = std::min(wide, chunk);
  const int64_t row_step = std::max<int64_t>(chunk / (skips_holes ? wide : columns), 1);
  const int64_t span = std::min(row_step, rectangle.rows) * (skips_holes ? step : columns);
  std::vector<char> raw(static_cast<size_t>((row_step == 1 ? step : span) * size));
  std::vector<float> block(static_cast<size_t>(std::min(row_step, rectangle.rows) * step));
  for (int64_t row = 0; row < rectangle.rows; row += row_step) {
    for (int64_t column = 0; column < wide; column += step) {
      const Piece piece{row, std::min(row_step, rectangle.rows - row), column,
                        std::min(step, wide - column)};
      const int64_t first = (rectangle.first_row + row) * columns + rectangle.first_column + column;
      const int64_t run = skips_holes ? 0 : (piece.rows - 1) * columns + piece.columns;
      if (run > 0) read_bytes(entry, first * size, run * size, raw.data());
      for (int64_t r = 0; r < piece.rows; ++r) {
        const int64_t place = first + r * columns;
        if (run == 0) read_bytes(entry, place * size, piece.columns * size, raw.data());
        widen(entry, raw.data() + (run > 0 ? r * columns * size : 0), place, piece.columns,
              block.data() + r * piece.columns);
      }
      if (transpose) {
        scatter_transposed(block.data(), piece, rectangle.rows, out);
      } else {
        scatter_straight(block.data(), piece, wide, out);
      }
    }
  }
}

}  // namespace plait
