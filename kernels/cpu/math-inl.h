// Exponential and what is made of it, on vectors of float32. Errors of exponentials are below
// 2 ulp; NaN in gives NaN out.
//
// Included once per Highway target, hence no #pragma once. D is a tag of float lanes.
#if defined(PLAIT_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_MATH_INL_H_
#undef PLAIT_KERNELS_CPU_MATH_INL_H_
#else
#define PLAIT_KERNELS_CPU_MATH_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Adding it rounds a small float to an integer n and leaves n + 127 in the low mantissa bits,
/// from where a shift makes it the exponent of 2ⁿ.
inline constexpr float kRoundWithBias = 12582912.0f + 127.0f;

/// v between the bounds; NaN stays NaN (the operand order matters).
template <class D, class V>
HWY_INLINE V clamp(D d, V v, float low, float high) {
  return hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), v));
}

/// 2^f for |f| ≤ ½: 1 + f·q(f), q a minimax fit, relative error 2e-9.
template <class D, class V>
HWY_INLINE V exp2_of_fraction(D d, V f) {
  V q = hn::Set(d, 1.535336633e-4f);
  q = hn::MulAdd(q, f, hn::Set(d, 1.339887851e-3f));
  q = hn::MulAdd(q, f, hn::Set(d, 9.618436918e-3f));
  q = hn::MulAdd(q, f, hn::Set(d, 5.550332367e-2f));
  q = hn::MulAdd(q, f, hn::Set(d, 2.402264774e-1f));
  q = hn::MulAdd(q, f, hn::Set(d, 6.931471825e-1f));
  return hn::MulAdd(q, f, hn::Set(d, 1.0f));
}

inline constexpr float kLog2E = 1.442695022e+0f;      ///< 1/ln 2 rounded to float
inline constexpr float kLog2ERest = 1.925963034e-8f;  ///< 1/ln 2 − kLog2E

/// ±x/ln 2 − n for an integer n within ½ of it, without the rounding error of the quotient.
template <int kSign, class D, class V>
HWY_INLINE V fraction_of_log2(D d, V x, V n) {
#if HWY_NATIVE_FMA
  const V f = hn::MulSub(x, hn::Set(d, kSign * kLog2E), n);
  return hn::MulAdd(x, hn::Set(d, kSign * kLog2ERest), f);
#else
  // ±x − n·ln 2 with ln 2 in two parts, the product of the first with n exact.
  V r = hn::Sub(hn::Mul(x, hn::Set(d, kSign)), hn::Mul(n, hn::Set(d, 6.931152344e-1f)));
  r = hn::Sub(r, hn::Mul(n, hn::Set(d, 3.194618330e-5f)));
  return hn::Mul(r, hn::Set(d, kLog2E));
#endif
}

/// fraction · scale, where the scale is a power of two.
template <class V>
struct Power {
  V fraction, scale;
};

/// e^(kSign·x) for −87.3 ≤ kSign·x ≤ 88.3 or NaN.
template <int kSign, class D, class V>
HWY_INLINE Power<V> exp_parts(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const V magic = hn::Set(d, kRoundWithBias);
  const V t = hn::MulAdd(x, hn::Set(d, kSign * kLog2E), magic);
  const V f = fraction_of_log2<kSign>(d, x, hn::Sub(t, magic));
  return {exp2_of_fraction(d, f), hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, t)))};
}

/// 2^y for −126 ≤ y ≤ 127 or NaN.
template <class D, class V>
HWY_INLINE Power<V> exp2_parts(D d, V y) {
  const hn::RebindToUnsigned<D> du;
  const V magic = hn::Set(d, kRoundWithBias);
  const V t = hn::Add(y, magic);
  const V f = hn::Sub(y, hn::Sub(t, magic));
  return {exp2_of_fraction(d, f), hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, t)))};
}

/// eˣ for −87.3 ≤ x ≤ 88.3 or NaN; anything else gives nonsense.
template <class D, class V>
HWY_INLINE V exp_in_range(D d, V x) {
  const Power<V> power = exp_parts<1>(d, x);
  return hn::Mul(power.fraction, power.scale);
}

/// eˣ for x ≤ 0 (larger x are not for it): 0 below −87.3, so that results are never subnormal.
template <class D, class V>
HWY_INLINE V exp_nonpositive(D d, V x) {
  const V low = hn::Set(d, -87.3f);
  const V result = exp_in_range(d, hn::Max(low, x));
  return hn::IfThenZeroElse(hn::Lt(x, low), result);
}

/// eˣ for every x: 0 and infinity at the ends, subnormal results rounded once.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, kRoundWithBias);
  const V bounded = clamp(d, x, -104.0f, 89.0f);
  const V t = hn::MulAdd(bounded, hn::Set(d, kLog2E), magic);
  const auto n = hn::Sub(hn::BitCast(di, t), hn::BitCast(di, magic));
  const auto half = hn::ShiftRight<1>(n);
  const auto bias = hn::Set(di, 127);
  const V scale1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V scale2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(n, half), bias)));
  const V result = exp2_of_fraction(d, fraction_of_log2<1>(d, bounded, hn::Sub(t, magic)));
  return hn::Mul(hn::Mul(result, scale1), scale2);
}

/// 1/x for finite x that is neither 0 nor subnormal, nor so large that 1/x is.
template <class D, class V>
HWY_INLINE V reciprocal(D d, V x) {
#if HWY_TARGET <= HWY_AVX3
  // From 14 bits to full precision in one step; division would take five times as long.
  const V y = hn::ApproximateReciprocal(x);
  return hn::MulAdd(y, hn::NegMulAdd(x, y, hn::Set(d, 1.0f)), y);
#else
  return hn::Div(hn::Set(d, 1.0f), x);
#endif
}

/// 1/(1 + 2^y) with y clamped to ±126: the least result is 1.2e-38 instead of 0. The relative error
/// is that of 2^y, which an error of y enters.
template <class D, class V>
HWY_INLINE V sigmoid_of_log2(D d, V y) {
  const Power<V> power = exp2_parts(d, clamp(d, y, -126.0f, 126.0f));
  return reciprocal(d, hn::MulAdd(power.fraction, power.scale, hn::Set(d, 1.0f)));
}

/// 1/(1 + e^−x) with x clamped to ±87.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const Power<V> power = exp_parts<-1>(d, clamp(d, x, -87.0f, 87.0f));
  return reciprocal(d, hn::MulAdd(power.fraction, power.scale, hn::Set(d, 1.0f)));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_MATH_INL_H_
