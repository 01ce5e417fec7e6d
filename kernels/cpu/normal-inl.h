// Standard normals on vectors, one Philox block in each lane. Bits equal fill_normal of
// kernels/base/random.h: the same additions, products, quotients and roots in the same order, each
// rounded once.
//
// Included once per Highway target, hence no #pragma once. D is a tag of double lanes.
#if defined(PLAIT_KERNELS_CPU_NORMAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_NORMAL_INL_H_
#undef PLAIT_KERNELS_CPU_NORMAL_INL_H_
#else
#define PLAIT_KERNELS_CPU_NORMAL_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

using RealTag = hn::ScalableTag<double>;
using RealVector = hn::Vec<RealTag>;

/// Integers below 2³² in 64-bit lanes, exactly: as the last bits of 2⁵² + i.
HWY_INLINE RealVector to_real(BlockVector integers) {
  const RealTag d;
  const BlockTag blocks;
  const auto offset = hn::Set(blocks, uint64_t{0x4330000000000000u});
  return hn::Sub(hn::BitCast(d, hn::Or(integers, offset)), hn::Set(d, 0x1p52));
}

/// x / divisor, rounded once, of normal numbers. With fused products a quotient takes two steps of
/// correction: after the first it is the true one or a neighbour of it, whose remainder is exact,
/// so that the second rounds correctly (Markstein, "Computation of elementary functions", 1990).
HWY_INLINE RealVector divide(RealVector x, double divisor) {
  const RealTag d;
  const RealVector by = hn::Set(d, divisor);
#if HWY_TARGET <= HWY_AVX2
  const RealVector inverse = hn::Set(d, 1.0 / divisor);
  RealVector quotient = hn::Mul(x, inverse);
  quotient = hn::MulAdd(hn::NegMulAdd(quotient, by, x), inverse, quotient);
  return hn::MulAdd(hn::NegMulAdd(quotient, by, x), inverse, quotient);
#else
  return hn::Div(x, by);
#endif
}

/// Natural logarithm of x in (0, 1).
HWY_INLINE RealVector log_unit(RealVector x) {
  const RealTag d;
  const BlockTag blocks;
  const BlockVector bits = hn::BitCast(blocks, x);
  RealVector e = hn::Sub(to_real(hn::ShiftRight<52>(bits)), hn::Set(d, 1022.0));
  RealVector m = hn::BitCast(d, hn::Or(hn::And(bits, hn::Set(blocks, 0xFFFFFFFFFFFFFull)),
                                       hn::Set(blocks, 0x3FE0000000000000ull)));
  const RealVector one = hn::Set(d, 1.0);
  const auto is_low = hn::Lt(m, hn::Set(d, 0.70710678118654752440));
  m = hn::IfThenElse(is_low, hn::Add(m, m), m);
  e = hn::IfThenElse(is_low, hn::Sub(e, one), e);
  const RealVector s = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  const RealVector z = hn::Mul(s, s);
  RealVector sum = hn::Zero(d);
  HWY_UNROLL(13)
  for (int k = 25; k >= 1; k -= 2) sum = hn::Add(hn::Mul(sum, z), hn::Set(d, 1.0 / k));
  const RealVector high = hn::Mul(e, hn::Set(d, 0x1.62e42fee00000p-1));
  const RealVector low = hn::Mul(e, hn::Set(d, 0x1.a39ef35793c76p-33));
  return hn::Add(high, hn::Add(hn::Mul(hn::Add(s, s), sum), low));
}

HWY_INLINE hn::Mask<RealTag> has_bit(BlockVector integers, uint64_t bit) {
  return hn::RebindMask(RealTag(), hn::TestBit(integers, hn::Set(BlockTag(), bit)));
}

/// Cosine and sine of 2πu for u in (0, 1).
HWY_INLINE void cos_sin_turn(RealVector u, RealVector& cosine, RealVector& sine) {
  const RealTag d;
  const BlockTag blocks;
  const RealVector scaled = hn::Mul(u, hn::Set(d, 8.0)), one = hn::Set(d, 1.0);
  // Rounded to an integer by adding 2⁵², then down where that went up.
  const RealVector shift = hn::Set(d, 0x1p52);
  RealVector octant = hn::Sub(hn::Add(scaled, shift), shift);
  octant = hn::IfThenElse(hn::Gt(octant, scaled), hn::Sub(octant, one), octant);
  const BlockVector o = hn::BitCast(blocks, hn::Add(octant, shift));  // its last three bits
  RealVector fraction = hn::Sub(scaled, octant);
  const auto b0 = has_bit(o, 1), b1 = has_bit(o, 2), b2 = has_bit(o, 4);
  fraction = hn::IfThenElse(b0, hn::Sub(one, fraction), fraction);
  const RealVector x = hn::Mul(fraction, hn::Set(d, 0.78539816339744830962));
  const RealVector z = hn::Neg(hn::Mul(x, x));
  RealVector c = hn::Zero(d), s = hn::Zero(d);
  HWY_UNROLL(9)
  for (int k = 18; k >= 2; k -= 2) {
    c = hn::Mul(hn::Add(one, c), divide(z, k * (k - 1)));
    s = hn::Mul(hn::Add(one, s), divide(z, k * (k + 1)));
  }
  c = hn::Add(one, c);
  s = hn::Add(x, hn::Mul(x, s));
  // Swapped in octants 1, 2, 5, 6; the cosine is negative in 2 … 5, the sine from 4 on.
  const auto is_swapped = hn::Xor(b0, b1);
  const RealVector cos_value = hn::IfThenElse(is_swapped, s, c);
  const RealVector sin_value = hn::IfThenElse(is_swapped, c, s);
  cosine = hn::IfThenElse(hn::Xor(b1, b2), hn::Neg(cos_value), cos_value);
  sine = hn::IfThenElse(b2, hn::Neg(sin_value), sin_value);
}

/// Elements [4 · block, …) of the stream, four for each lane.
HWY_INLINE void normal_lanes(PhiloxKey key, RealVector std, uint64_t block, float* out) {
  const RealTag d;
  const BlockTag blocks;
  const hn::Rebind<float, RealTag> floats;
  PhiloxLanes lanes;
  lanes.c[0] = hn::Add(hn::Iota(blocks, 0), hn::Set(blocks, block));
  lanes.c[1] = hn::ShiftRight<32>(lanes.c[0]);
  lanes.c[2] = lanes.c[3] = hn::Zero(blocks);
  philox_rounds(key, lanes);
  const BlockVector mask = hn::Set(blocks, uint64_t{0xFFFFFFFFu});
  const RealVector half = hn::Set(d, 0.5), scale = hn::Set(d, 0x1p-32);
  RealVector normals[4];
  for (int pair = 0; pair < 4; pair += 2) {
    const auto u0 = hn::Mul(hn::Add(to_real(hn::And(lanes.c[pair], mask)), half), scale);
    const auto u1 = hn::Mul(hn::Add(to_real(hn::And(lanes.c[pair + 1], mask)), half), scale);
    const RealVector radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), log_unit(u0)));
    RealVector cosine = radius, sine = radius;
    cos_sin_turn(u1, cosine, sine);
    normals[pair] = hn::Mul(std, hn::Mul(radius, cosine));
    normals[pair + 1] = hn::Mul(std, hn::Mul(radius, sine));
  }
  hn::StoreInterleaved4(hn::DemoteTo(floats, normals[0]), hn::DemoteTo(floats, normals[1]),
                        hn::DemoteTo(floats, normals[2]), hn::DemoteTo(floats, normals[3]), floats,
                        out);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_NORMAL_INL_H_
