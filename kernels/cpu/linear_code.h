// The inner loops of the blocked products, compiled once per instruction set.
//
// out[rows, columns] (+)= A[rows, inner] · B[inner, columns], all in float32 once packed:
//  - a strip holds up to `strip_rows` rows of A, either row-major (row pitch `row_pitch`) or
//    inner-major (`strip_pitch` floats for each inner index);
//  - a panel holds `panel_columns` columns of B, inner-major, its missing columns zero.
// A strip and a panel are read from cache once for every panel and strip that they meet. The sum of
// one block of the inner dimension runs in order of the inner index and is then added to the sums
// of the blocks before it, so the bits of a result depend on `max_inner` and the shape alone.
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/device/isa.h"

namespace plait {

/// Rows of a row-major matrix in the caller's dtype: float32, bfloat16 or float16.
struct MatrixRows {
  const void* data = nullptr;  ///< first element that is meant
  DType dtype = DType::kFloat32;
  int64_t stride = 0;    ///< elements from row to row
  int64_t readable = 0;  ///< elements that may be read from the first one of each row

  MatrixRows at(int64_t row, int64_t column) const {
    const int64_t offset = (row * stride + column) * dtype_size(dtype);
    return {static_cast<const char*>(data) + offset, dtype, stride, readable - column};
  }
};

/// One strip times neighbouring panels.
struct StripProduct {
  const float* strip = nullptr;
  const float* panels = nullptr;
  int64_t panel_pitch = 0;  ///< floats from panel to panel
  int64_t inner = 0;
  int64_t rows = 0;     ///< of the strip that are filled, 1 to strip_rows
  int64_t columns = 0;  ///< of the output; the last panel may be narrower than its width
  float* sums = nullptr;
  int64_t sums_stride = 0;
  bool is_adding = false;       ///< to `sums`, else replaces them
  bool is_inner_major = false;  ///< the layout of the strip
  /// Memory to fetch into the L2 cache meanwhile, where the next strip comes from; or null.
  const void* next = nullptr;
  int64_t next_rows = 0;
  int64_t next_width = 0;   ///< bytes
  int64_t next_stride = 0;  ///< bytes
};

/// Finished sums on their way to the output.
struct StripOutput {
  const float* sums = nullptr;  ///< may be the output itself
  int64_t sums_stride = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  MatrixRows bias;      ///< one row, or absent (null data)
  void* out = nullptr;  ///< first element that is meant
  DType dtype = DType::kFloat32;
  int64_t out_stride = 0;
};

struct LinearCode {
  int64_t strip_rows;
  int64_t panel_columns;
  int64_t strip_pitch;
  int64_t max_inner;     ///< longest block of the inner dimension, row-major strips
  int64_t max_inner_t;   ///< … inner-major strips
  int64_t panel_floats;  ///< size that neighbouring panels should have at most together

  /// Row-major strip of `rows` rows and `inner` columns of `source`.
  void (*copy_rows)(const MatrixRows& source, int64_t rows, int64_t inner, float* strip);
  /// Inner-major strips of `columns` columns, `inner` rows of `source`; adds up each column into
  /// `column_sums` (whole strips of strip_pitch floats) unless that is null.
  void (*copy_columns)(const MatrixRows& source, int64_t inner, int64_t columns, float* strips,
                       float* column_sums);
  /// Panels of `columns` columns, `inner` rows of `source`.
  void (*copy_panels)(const MatrixRows& source, int64_t inner, int64_t columns, float* panels);
  /// Adds `rows` rows of `source`, `columns` wide, to `sums`.
  void (*add_rows)(const MatrixRows& source, int64_t rows, int64_t columns, float* sums);
  /// `count` elements to float32.
  void (*widen)(const void* source, DType dtype, int64_t count, float* out);
  /// One panel of Wᵀ in the dtype of W: `rows` ≤ panel_columns rows of W become its columns.
  void (*pack_panel)(const MatrixRows& weight, int64_t rows, int64_t inner, void* panel);
  void (*multiply)(const StripProduct& product);
  /// Adds the bias and rounds to nearest even.
  void (*finish)(const StripOutput& output);
};

/// Floats from row to row of a row-major strip: no multiple of a cache way.
constexpr int64_t row_pitch(int64_t max_inner) { return max_inner + 16; }

const LinearCode& linear_code(IsaLevel isa);

}  // namespace plait
