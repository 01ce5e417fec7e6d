// Copies of matrices into strips and panels, and finished sums into the output, in vector code; see
// linear_code.h. Compiled once for every Highway target.
#if defined(PLAIT_KERNELS_CPU_LINEAR_PACK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_LINEAR_PACK_INL
#undef PLAIT_KERNELS_CPU_LINEAR_PACK_INL
#else
#define PLAIT_KERNELS_CPU_LINEAR_PACK_INL
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/cpu/linear_code.h"
#include "kernels/cpu/linear_micro-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kRowsAtOnce = 8;  // copied panel by panel: pages of source and panels alternate

using HalfBits = hn::Rebind<uint16_t, FloatTag>;  // as many lanes as a float vector
using FloatBits = hn::Rebind<uint32_t, FloatTag>;

HWY_INLINE FloatVector load(const float* p) { return hn::LoadU(FloatTag(), p); }
HWY_INLINE FloatVector load(const BFloat16* p) {
  const auto bits = hn::LoadU(HalfBits(), reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(FloatBits(), bits)));
}
HWY_INLINE FloatVector load(const Float16* p) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  const auto bits = hn::LoadU(HalfBits(), reinterpret_cast<const uint16_t*>(p));
  return hn::PromoteTo(FloatTag(), hn::BitCast(half, bits));
#else
  HWY_ALIGN float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = to_float(p[i]);
  return hn::Load(FloatTag(), values);
#endif
}

HWY_INLINE void store(FloatVector v, float* p) { hn::StoreU(v, FloatTag(), p); }
HWY_INLINE void store(FloatVector v, BFloat16* p) {
  const FloatBits d;
  const auto bits = hn::BitCast(d, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFu)));
  const auto quiet = hn::Or(bits, hn::Set(d, 0x400000u));
  const auto is_nan = hn::RebindMask(d, hn::IsNaN(v));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::TruncateTo(HalfBits(), high), HalfBits(), reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void store(FloatVector v, Float16* p) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  const auto bits = hn::BitCast(HalfBits(), hn::DemoteTo(half, v));
  hn::StoreU(bits, HalfBits(), reinterpret_cast<uint16_t*>(p));
#else
  HWY_ALIGN float values[kLanes];
  hn::Store(v, FloatTag(), values);
  for (int i = 0; i < kLanes; ++i) p[i] = to_float16(values[i]);
#endif
}

template <class T>
HWY_INLINE void widen_to(const T* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(load(from + i), to + i);
  for (; i < count; ++i) to[i] = to_float(from[i]);
}

/// Calls body(pointer to the elements of the matrix in their type).
template <class Body>
HWY_INLINE void with_type(const void* data, DType dtype, const Body& body) {
  if (dtype == DType::kFloat32) return body(static_cast<const float*>(data));
  if (dtype == DType::kBFloat16) return body(static_cast<const BFloat16*>(data));
  body(static_cast<const Float16*>(data));
}

template <class T>
void copy_rows_of(const T* from, int64_t stride, int64_t rows, int64_t inner, float* strip) {
  for (int64_t row = 0; row < rows; ++row) {
    widen_to(from + row * stride, inner, strip + row * row_pitch(kMaxInner));
  }
}

void copy_rows(const MatrixRows& source, int64_t rows, int64_t inner, float* strip) {
  with_type(source.data, source.dtype,
            [&](const auto* from) { copy_rows_of(from, source.stride, rows, inner, strip); });
}

/// `rows` rows of `width` elements, of which `valid` count, each to `to + row * width`.
/// `sums` (width floats) grows by the rows unless it is null.
template <int kWidth, class T>
HWY_INLINE void copy_block(const T* from, int64_t stride, int64_t rows, float* to, float* sums) {
  FloatVector total[kWidth / kLanes];
  for (int i = 0; i < kWidth / kLanes; ++i) {
    total[i] = sums == nullptr ? hn::Zero(FloatTag()) : load(sums + i * kLanes);
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int i = 0; i < kWidth; i += kLineBytes / static_cast<int>(sizeof(T))) {
      hwy::Prefetch(from + (row + kRowsAtOnce) * stride + i);  // this block of the next rows
    }
    for (int i = 0; i < kWidth / kLanes; ++i) {
      const FloatVector v = load(from + row * stride + i * kLanes);
      store(v, to + row * kWidth + i * kLanes);
      total[i] = hn::Add(total[i], v);
    }
  }
  if (sums == nullptr) return;
  for (int i = 0; i < kWidth / kLanes; ++i) store(total[i], sums + i * kLanes);
}

/// As copy_block where fewer than `kWidth` elements may be read: the rest becomes zero.
template <int kWidth, class T>
void copy_narrow(const MatrixRows& source, int64_t rows, float* to, float* sums) {
  const auto* from = static_cast<const T*>(source.data);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < kWidth; ++i) {
      const float v = i < source.readable ? to_float(from[row * source.stride + i]) : 0.0f;
      to[row * kWidth + i] = v;
      if (sums != nullptr) sums[i] += v;
    }
  }
}

/// Blocks of kWidth floats an inner index, of which kStep are new columns. `sums` as in copy_block.
template <int kWidth, int kStep, class T>
void copy_blocks(const MatrixRows& source, int64_t inner, int64_t columns, float* to, float* sums) {
  for (int64_t first = 0; first < inner; first += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, inner - first);
    for (int64_t block = 0; block * kStep < columns; ++block) {
      MatrixRows part = source.at(first, block * kStep);
      float* block_to = to + block * inner * kWidth + first * kWidth;
      float* block_sums = sums == nullptr ? nullptr : sums + block * kWidth;
      if (part.readable >= kWidth) {
        copy_block<kWidth>(static_cast<const T*>(part.data), part.stride, rows, block_to,
                           block_sums);
      } else {
        copy_narrow<kWidth, T>(part, rows, block_to, block_sums);
      }
    }
  }
}

void copy_columns(const MatrixRows& source, int64_t inner, int64_t columns, float* strips,
                  float* column_sums) {
  with_type(source.data, source.dtype, [&]<class T>(const T*) {
    copy_blocks<kStripPitch, kStripRows, T>(source, inner, columns, strips, column_sums);
  });
}

void copy_panels(const MatrixRows& source, int64_t inner, int64_t columns, float* panels) {
  with_type(source.data, source.dtype, [&]<class T>(const T*) {
    copy_blocks<kPanelColumns, kPanelColumns, T>(source, inner, columns, panels, nullptr);
  });
}

void add_rows(const MatrixRows& source, int64_t rows, int64_t columns, float* sums) {
  with_type(source.data, source.dtype, [&](const auto* from) {
    for (int64_t row = 0; row < rows; ++row, from += source.stride) {
      int64_t i = 0;
      for (; i + kLanes <= columns; i += kLanes) {
        store(hn::Add(load(sums + i), load(from + i)), sums + i);
      }
      for (; i < columns; ++i) sums[i] += to_float(from[i]);
    }
  });
}

void widen(const void* source, DType dtype, int64_t count, float* out) {
  with_type(source, dtype, [&](const auto* from) { widen_to(from, count, out); });
}

/// Transposes kSide rows of kSide elements, one 128-bit vector each: log2(kSide) perfect shuffles.
template <class Tag, int kSide = hn::MaxLanes(Tag())>
HWY_INLINE void transpose_square(hn::Vec<Tag> (&v)[kSide]) {
  for (int round = 1; round < kSide; round *= 2) {
    hn::Vec<Tag> next[kSide];
    for (int i = 0; i < kSide / 2; ++i) {
      next[2 * i] = hn::InterleaveLower(Tag(), v[i], v[i + kSide / 2]);
      next[2 * i + 1] = hn::InterleaveUpper(Tag(), v[i], v[i + kSide / 2]);
    }
    for (int i = 0; i < kSide; ++i) v[i] = next[i];
  }
}

template <class T>
void pack_panel_of(const T* from, int64_t stride, int64_t rows, int64_t inner, T* panel) {
  using Tag = hn::FixedTag<T, 16 / sizeof(T)>;
  constexpr int kSide = 16 / sizeof(T);
  const Tag d;
  const int64_t whole_rows = rows / kSide * kSide, whole_inner = inner / kSide * kSide;
  for (int64_t i = 0; i < whole_inner; i += kSide) {
    for (int64_t row = 0; row < whole_rows; row += kSide) {
      hn::Vec<Tag> v[kSide];
      for (int j = 0; j < kSide; ++j) v[j] = hn::LoadU(d, from + (row + j) * stride + i);
      transpose_square<Tag>(v);
      for (int j = 0; j < kSide; ++j) hn::StoreU(v[j], d, panel + (i + j) * kPanelColumns + row);
    }
  }
  for (int64_t i = 0; i < inner; ++i) {
    const int64_t first = i < whole_inner ? whole_rows : 0;
    for (int64_t row = first; row < kPanelColumns; ++row) {
      panel[i * kPanelColumns + row] = row < rows ? from[row * stride + i] : T{};
    }
  }
}

void pack_panel(const MatrixRows& weight, int64_t rows, int64_t inner, void* panel) {
  if (weight.dtype == DType::kFloat32) {
    return pack_panel_of(static_cast<const float*>(weight.data), weight.stride, rows, inner,
                         static_cast<float*>(panel));
  }
  pack_panel_of(static_cast<const uint16_t*>(weight.data), weight.stride, rows, inner,
                static_cast<uint16_t*>(panel));
}

template <class Bias, class Out>
HWY_INLINE void finish_row(const float* sums, int64_t count, const Bias* bias, Out* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const FloatVector v = load(sums + i);
    store(bias == nullptr ? v : hn::Add(v, load(bias + i)), out + i);
  }
  for (; i < count; ++i) {
    out[i] = from_float<Out>(bias == nullptr ? sums[i] : sums[i] + to_float(bias[i]));
  }
}

void finish(const StripOutput& o) {
  with_type(o.bias.data, o.bias.dtype, [&](const auto* bias) {
    with_type(o.out, o.dtype, [&]<class Out>(const Out*) {
      for (int64_t row = 0; row < o.rows; ++row) {
        finish_row(o.sums + row * o.sums_stride, o.columns, bias,
                   static_cast<Out*>(o.out) + row * o.out_stride);
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();
#endif
