// Exponential and what is made of it, on vectors of float32. Errors are below 2 ulp; NaN in gives
// NaN out.
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

/// e^(x − n·ln 2) for the n nearest to x/ln 2, given as a float. The polynomial is a minimax fit of
/// (eʳ − 1 − r)/r² on |r| ≤ ½ ln 2, relative error 3e-9 of eʳ.
template <class D, class V>
HWY_INLINE V exp_of_remainder(D d, V x, V n) {
  // ln 2 in two parts; the product of the first with n is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 6.931152344e-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 3.194618330e-5f), r);
  V p = hn::Set(d, 1.381459762e-3f);
  p = hn::MulAdd(p, r, hn::Set(d, 8.368719369e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.166838899e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.666652113e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.999999404e-1f));
  return hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
}

/// eˣ for −87.3 ≤ x ≤ 88.3 or NaN; anything else gives nonsense.
template <class D, class V>
HWY_INLINE V exp_in_range(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const V magic = hn::Set(d, kRoundWithBias);
  const V t = hn::MulAdd(x, hn::Set(d, 1.442695041f), magic);
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, t)));
  return hn::Mul(exp_of_remainder(d, x, hn::Sub(t, magic)), scale);
}

/// eˣ for x ≤ 0 (not checked: larger x are taken as if not above 88): 0 below −87.3, so that
/// results are never subnormal.
template <class D, class V>
HWY_INLINE V exp_nonpositive(D d, V x) {
  const V result = exp_in_range(d, clamp(d, x, -87.3f, 88.0f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), result);
}

/// eˣ for every x: 0 and infinity at the ends, subnormal results rounded once.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, kRoundWithBias);
  const V bounded = clamp(d, x, -104.0f, 89.0f);
  const V t = hn::MulAdd(bounded, hn::Set(d, 1.442695041f), magic);
  const auto n = hn::Sub(hn::BitCast(di, t), hn::BitCast(di, magic));
  const auto half = hn::ShiftRight<1>(n);
  const auto bias = hn::Set(di, 127);
  const V scale1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V scale2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(n, half), bias)));
  const V result = exp_of_remainder(d, bounded, hn::Sub(t, magic));
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

/// 1/(1 + e^−x) without the cut at the lower end: x is clamped to ±87.
template <class D, class V>
HWY_INLINE V sigmoid_in_range(D d, V x) {
  const V e = exp_in_range(d, hn::Neg(clamp(d, x, -87.0f, 87.0f)));
  return reciprocal(d, hn::Add(e, hn::Set(d, 1.0f)));
}

/// 1/(1 + e^−x); exactly 0 below −87.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), sigmoid_in_range(d, x));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_MATH_INL_H_
