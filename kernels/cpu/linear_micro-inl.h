// One strip times neighbouring panels in vector code; see linear_code.h. No include guard in the
// usual sense: compiled once for every Highway target.
#if defined(PLAIT_KERNELS_CPU_LINEAR_MICRO_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_LINEAR_MICRO_INL
#undef PLAIT_KERNELS_CPU_LINEAR_MICRO_INL
#else
#define PLAIT_KERNELS_CPU_LINEAR_MICRO_INL
#endif

#include <algorithm>
#include <utility>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/linear_code.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

constexpr int kLanes = HWY_LANES(float);
constexpr int kPanelColumns = 2 * kLanes;
#if HWY_TARGET == HWY_AVX3
// 28 accumulators, two vectors of the panel and one element of the strip: 31 of 32 registers.
constexpr int kStripRows = 14;
constexpr int kStripPitch = 16;
constexpr int64_t kMaxInner = 1024;
constexpr int64_t kMaxInnerMajor = 384;
constexpr int64_t kPanelFloats = 320 * 1024;
#else
// 12 accumulators of 16 registers.
constexpr int kStripRows = 6;
constexpr int kStripPitch = 8;
constexpr int64_t kMaxInner = 512;
constexpr int64_t kMaxInnerMajor = 256;
constexpr int64_t kPanelFloats = 64 * 1024;
#endif
constexpr int kPanelAhead = 8;    // inner indices that the panel is fetched ahead
constexpr int kInnerAtOnce = 16;  // inner indices between the fetches of anything else
constexpr int kLineBytes = 64;

template <bool kIsInnerMajor>
struct StripLayout {
  static constexpr int64_t kRow = row_pitch(kMaxInner), kInner = 1;
};
template <>
struct StripLayout<true> {
  static constexpr int64_t kRow = 1, kInner = kStripPitch;
};

/// Walks the cache lines of a rectangle.
struct Ahead {
  const char* row = nullptr;
  int64_t width = 0;  ///< bytes
  int64_t stride = 0;
  int64_t lines = 0;    ///< left
  int64_t at_once = 0;  ///< of kInnerAtOnce inner indices
  int64_t column = 0;

  HWY_INLINE void fetch() {
    for (int64_t i = 0; i < at_once && lines > 0; ++i, --lines) {
      __builtin_prefetch(row + column, 0, 2);
      column += kLineBytes;
      if (column >= width) {
        column = 0;
        row += stride;
      }
    }
  }
};

/// Where one strip and one panel meet.
struct Meeting {
  const float* strip;
  const float* panel;
  int64_t inner;
  float* sums;
  int64_t sums_stride;
  bool is_adding;
  Ahead* ahead;
};

HWY_INLINE void multiply_add(float element, FloatVector left, FloatVector right,
                             FloatVector& left_sum, FloatVector& right_sum) {
  const FloatVector all = hn::Set(FloatTag(), element);
  left_sum = hn::MulAdd(all, left, left_sum);
  right_sum = hn::MulAdd(all, right, right_sum);
}

HWY_INLINE void put(FloatVector sum, bool is_adding, float* out) {
  const FloatTag d;
  hn::StoreU(is_adding ? hn::Add(hn::LoadU(d, out), sum) : sum, d, out);
}

/// The rows are unrolled by pack expansion, so that every accumulator stays in a register.
template <bool kIsInnerMajor, size_t... kRow>
HWY_INLINE void meet(const Meeting& at, std::index_sequence<kRow...>) {
  using Layout = StripLayout<kIsInnerMajor>;
  const FloatTag d;
  const float* HWY_RESTRICT strip = at.strip;
  const float* HWY_RESTRICT panel = at.panel;
  FloatVector left_sum[sizeof...(kRow)] = {((void)kRow, hn::Zero(d))...};
  FloatVector right_sum[sizeof...(kRow)] = {((void)kRow, hn::Zero(d))...};
  for (int64_t done = 0, row = 0; done < at.inner; done += kInnerAtOnce, ++row) {
    if (row < static_cast<int64_t>(sizeof...(kRow))) {
      hwy::Prefetch(at.sums + row * at.sums_stride);
      hwy::Prefetch(at.sums + row * at.sums_stride + kLanes);
    }
    at.ahead->fetch();
    const int64_t steps = std::min<int64_t>(kInnerAtOnce, at.inner - done);
    for (int64_t i = 0; i < steps; ++i) {
      const FloatVector left = hn::Load(d, panel);
      const FloatVector right = hn::Load(d, panel + kLanes);
      hwy::Prefetch(panel + kPanelAhead * kPanelColumns);
      hwy::Prefetch(panel + kPanelAhead * kPanelColumns + kLanes);
      (multiply_add(strip[kRow * Layout::kRow], left, right, left_sum[kRow], right_sum[kRow]), ...);
      strip += Layout::kInner;
      panel += kPanelColumns;
    }
  }
  (put(left_sum[kRow], at.is_adding, at.sums + kRow * at.sums_stride), ...);
  (put(right_sum[kRow], at.is_adding, at.sums + kRow * at.sums_stride + kLanes), ...);
}

template <bool kIsInnerMajor, int kRows>
HWY_NOINLINE void meet_rows(const Meeting& at) {
  meet<kIsInnerMajor>(at, std::make_index_sequence<kRows>());
}

/// Any number of rows: each row's sum is the same whatever rows it is computed with.
template <bool kIsInnerMajor>
void meet_any(Meeting at, int64_t rows) {
  const auto next = [&](int64_t done) {
    at.strip += done * StripLayout<kIsInnerMajor>::kRow;
    at.sums += done * at.sums_stride;
    rows -= done;
  };
  if (rows == kStripRows) return meet_rows<kIsInnerMajor, kStripRows>(at);
#if HWY_TARGET == HWY_AVX3
  if (rows >= 8) {
    meet_rows<kIsInnerMajor, 8>(at);
    next(8);
  }
#endif
  if (rows >= 4) {
    meet_rows<kIsInnerMajor, 4>(at);
    next(4);
  }
  if (rows >= 2) {
    meet_rows<kIsInnerMajor, 2>(at);
    next(2);
  }
  if (rows >= 1) meet_rows<kIsInnerMajor, 1>(at);
}

/// The rectangle that the next strip comes from, spread over this product.
Ahead ahead_of(const StripProduct& p) {
  Ahead ahead;
  if (p.next == nullptr) return ahead;
  ahead.row = static_cast<const char*>(p.next);
  ahead.width = p.next_width;
  ahead.stride = p.next_stride;
  ahead.lines = p.next_rows * ((p.next_width + kLineBytes - 1) / kLineBytes);
  const int64_t turns = ((p.columns + kPanelColumns - 1) / kPanelColumns) *
                        ((p.inner + kInnerAtOnce - 1) / kInnerAtOnce);
  ahead.at_once = (ahead.lines + turns - 1) / turns;
  return ahead;
}

template <bool kIsInnerMajor>
void multiply_layout(const StripProduct& p) {
  const int64_t whole = p.columns / kPanelColumns;
  Ahead ahead = ahead_of(p);
  Meeting at{p.strip, p.panels, p.inner, p.sums, p.sums_stride, p.is_adding, &ahead};
  for (int64_t i = 0; i < whole; ++i) {
    meet_any<kIsInnerMajor>(at, p.rows);
    at.panel += p.panel_pitch;
    at.sums += kPanelColumns;
  }
  const int64_t rest = p.columns - whole * kPanelColumns;
  if (rest == 0) return;
  HWY_ALIGN float tile[kStripRows * kPanelColumns];
  meet_any<kIsInnerMajor>({at.strip, at.panel, at.inner, tile, kPanelColumns, false, &ahead},
                          p.rows);
  for (int64_t row = 0; row < p.rows; ++row) {
    const float* from = tile + row * kPanelColumns;
    float* to = at.sums + row * p.sums_stride;
    for (int64_t i = 0; i < rest; ++i) to[i] = p.is_adding ? to[i] + from[i] : from[i];
  }
}

void multiply(const StripProduct& product) {
  product.is_inner_major ? multiply_layout<true>(product) : multiply_layout<false>(product);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();
#endif
