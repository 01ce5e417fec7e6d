// Per target: register-tiled products, transposition into panels, rows in and out of fp32.
// Included once for each Highway target.
#if defined(PLAIT_KERNELS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_ATTENTION_TILE_INL_H_
#undef PLAIT_KERNELS_CPU_ATTENTION_TILE_INL_H_
#else
#define PLAIT_KERNELS_CPU_ATTENTION_TILE_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/base/dtype.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::ScalableTag<int32_t>;
using VectorF = hn::Vec<F32>;

inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(F32()));
inline constexpr int64_t kPanel = 2 * kLanes;
static_assert(kPanel <= kAttentionPanel);
// Twelve rows of two vectors fill 32 registers; with 16 they are taken in two halves.
inline constexpr bool kHasManyRegisters = HWY_TARGET <= HWY_AVX3;

/// One side of a product: element (row, k) of the left stands at data[row·kRowStride + k·step],
/// row k of the right at data + k·step.
struct Operand {
  const float* data;
  int64_t step;
};

/// Rows of the result, `stride` floats apart.
struct Result {
  float* data;
  int64_t stride;
};

/// c ← (c +) a·b for kRows rows and kVectors vectors of columns, `depth` terms in ascending order.
template <int kRows, int kVectors, int64_t kRowStride, bool kAdds>
HWY_INLINE void multiply_block(Operand a, Operand b, Result c, int64_t depth) {
  const F32 d;
  VectorF sum[kRows * kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[row * kVectors + v] =
          kAdds ? hn::LoadU(d, c.data + row * c.stride + v * kLanes) : hn::Zero(d);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    VectorF right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b.data + v * kLanes);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const VectorF left = hn::Set(d, a.data[row * kRowStride]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[row * kVectors + v] = hn::MulAdd(left, right[v], sum[row * kVectors + v]);
      }
    }
    a.data += a.step;
    b.data += b.step;
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[row * kVectors + v], d, c.data + row * c.stride + v * kLanes);
    }
  }
}

/// c ← (c +) a·b for one group of rows and one or two vectors of columns.
template <int kVectors, int64_t kRowStride, bool kAdds>
HWY_NOINLINE void multiply_group(Operand a, Operand b, Result c, int64_t depth) {
  constexpr int kGroup = kAttentionGroup;
  if constexpr (kHasManyRegisters || kVectors == 1) {
    multiply_block<kGroup, kVectors, kRowStride, kAdds>(a, b, c, depth);
  } else {
    constexpr int kHalf = kGroup / 2;
    multiply_block<kHalf, kVectors, kRowStride, kAdds>(a, b, c, depth);
    multiply_block<kHalf, kVectors, kRowStride, kAdds>(
        {a.data + kHalf * kRowStride, a.step}, b, {c.data + kHalf * c.stride, c.stride}, depth);
  }
}

/// c ← c + a·b for one group of rows and vectors [v, v + 2) of `vectors` columns (or the last one).
template <int64_t kRowStride>
HWY_INLINE void add_product(Operand a, Operand b, Result c, int64_t depth, bool is_pair) {
  if (is_pair) {
    multiply_group<2, kRowStride, true>(a, b, c, depth);
  } else {
    multiply_group<1, kRowStride, true>(a, b, c, depth);
  }
}

/// to[column][row] ← from[row][column] for multiples of four rows and columns.
HWY_INLINE void transpose(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                          Result to) {
  const hn::Full128<float> d;
  const hn::Full128<uint64_t> pairs;
  const auto low = [&](auto a, auto b) {
    return hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  const auto high = [&](auto a, auto b) {
    return hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  for (int64_t row = 0; row < rows; row += 4) {
    for (int64_t column = 0; column < columns; column += 4) {
      const float* p = from + row * from_stride + column;
      const auto r0 = hn::LoadU(d, p), r1 = hn::LoadU(d, p + from_stride);
      const auto r2 = hn::LoadU(d, p + 2 * from_stride), r3 = hn::LoadU(d, p + 3 * from_stride);
      const auto t0 = hn::InterleaveLower(d, r0, r1), t1 = hn::InterleaveUpper(d, r0, r1);
      const auto t2 = hn::InterleaveLower(d, r2, r3), t3 = hn::InterleaveUpper(d, r2, r3);
      float* q = to.data + column * to.stride + row;
      hn::StoreU(low(t0, t2), d, q);
      hn::StoreU(high(t0, t2), d, q + to.stride);
      hn::StoreU(low(t1, t3), d, q + 2 * to.stride);
      hn::StoreU(high(t1, t3), d, q + 3 * to.stride);
    }
  }
}

/// Widens `count` elements and fills up to `stride` with zeros.
template <class T>
HWY_INLINE void load_row(const T* from, int64_t count, int64_t stride, float* to) {
  const F32 d;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(load(d, from + i), d, to + i);
  if (i < count) {
    hn::StoreU(load(d, from + i, SomeLanes{static_cast<size_t>(count - i)}), d, to + i);
    i += kLanes;
  }
  for (; i < stride; i += kLanes) hn::StoreU(hn::Zero(d), d, to + i);
}

/// Rounds factor · from to T, to nearest even.
template <class T>
HWY_INLINE void store_row(const float* from, float factor, int64_t count, T* to) {
  const F32 d;
  const VectorF scale = hn::Set(d, factor);
  for_vectors(d, count, [&](int64_t i, auto lanes) HWY_ATTR {
    store(d, hn::Mul(scale, hn::LoadU(d, from + i)), to + i, lanes);
  });
}

/// Calls body with a null pointer of the storage type.
template <class Body>
HWY_INLINE void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kBFloat16:
      return body(static_cast<BFloat16*>(nullptr));
    case DType::kFloat16:
      return body(static_cast<Float16*>(nullptr));
    default:
      return body(static_cast<float*>(nullptr));
  }
}

/// A matrix of the compute dtype: `columns` wanted of rows `stride` elements apart.
struct Stored {
  char* data;
  DType dtype;
  int64_t stride;
  int64_t columns;
};

/// Rows [first, first + count) of one head's columns, from `column` on, of a [rows, all] tensor.
HWY_INLINE Stored stored_head(const TensorView& tensor, int64_t row, int64_t column,
                              int64_t columns) {
  const int64_t stride = tensor.columns();
  return {static_cast<char*>(tensor.data) + (row * stride + column) * dtype_size(tensor.dtype),
          tensor.dtype, stride, columns};
}

/// Widens rows [first, first + count) into rows `to.stride` apart, zero behind the columns.
HWY_NOINLINE void load_rows(const Stored& from, int64_t first, int64_t count, Result to) {
  with_type(from.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* data = reinterpret_cast<const T*>(from.data);
    for (int64_t row = 0; row < count; ++row) {
      load_row(data + (first + row) * from.stride, from.columns, to.stride,
               to.data + row * to.stride);
    }
  });
}

/// Rounds factors[row]·from (factors[0] for all rows with `is_same`) into rows [first, first +
/// count).
HWY_NOINLINE void store_rows(Operand from, const float* factors, bool is_same, int64_t count,
                             const Stored& to) {
  with_type(to.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* data = reinterpret_cast<T*>(to.data);
    for (int64_t row = 0; row < count; ++row) {
      store_row(from.data + row * from.step, factors[is_same ? 0 : row], to.columns,
                data + row * to.stride);
    }
  });
}

/// Packs rows [first, end) (first a multiple of the panel) into panels [panel][E][W]; `rows` holds
/// a panel's rows meanwhile. Rows behind `end` become zero.
HWY_NOINLINE void pack_panels(const Stored& from, int64_t first, int64_t end, Result rows,
                              float* panels) {
  const int64_t depth = attention_round_up(from.columns, 4);
  for (int64_t key = first; key < end; key += kPanel) {
    const int64_t count = end - key < kPanel ? end - key : kPanel;
    load_rows(from, key, count, rows);
    std::memset(rows.data + count * rows.stride, 0,
                static_cast<size_t>((kPanel - count) * rows.stride) * sizeof(float));
    transpose(rows.data, rows.stride, kPanel, depth, {panels + key * depth, kPanel});
  }
}

/// 2^x for x ≤ 0 with a relative error below 2e-7; 0 for x < −126.5; NaN stays NaN (the order of
/// Max's operands matters). The integer part comes from the low bits of x + 1.5·2²³ + 127, where a
/// shift makes it an exponent; the fraction goes through a minimax polynomial on [−½, ½].
HWY_INLINE VectorF exp2_vector(VectorF x) {
  const F32 d;
  const VectorF magic = hn::Set(d, 12582912.0f + 127.0f);
  const VectorF bounded = hn::Max(hn::Set(d, -127.0f), x);
  const VectorF shifted = hn::Add(bounded, magic);
  const VectorF f = hn::Sub(bounded, hn::Sub(shifted, magic));
  VectorF p = hn::Set(d, 1.3264747933e-3f);
  p = hn::MulAdd(p, f, hn::Set(d, 9.6715123683e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.5507336786e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.4022242091e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.9314697764e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::BitCast(hn::RebindToUnsigned<F32>(), shifted));
  return hn::Mul(p, hn::BitCast(d, power));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_ATTENTION_TILE_INL_H_
