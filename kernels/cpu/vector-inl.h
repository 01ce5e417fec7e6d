// Vectors of float from and to float32, bfloat16 and float16 storage, whole or in part. Every
// element of an array goes through the same code: the last, shorter vector is loaded and stored
// through a buffer, with zeros in the lanes beyond its end.
//
// Included once per Highway target, hence no #pragma once. D is a tag of float lanes.
#if defined(PLAIT_KERNELS_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_VECTOR_INL_H_
#undef PLAIT_KERNELS_CPU_VECTOR_INL_H_
#else
#define PLAIT_KERNELS_CPU_VECTOR_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/base/dtype.h"

/// Follows the parameters of a lambda that holds vector code.
#undef PLAIT_VECTOR_LAMBDA
#define PLAIT_VECTOR_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;

/// All lanes of a vector.
struct AllLanes {};

/// The first `count` lanes of a vector, 0 < count < lanes.
struct SomeLanes {
  size_t count;
};

/// v rounded to bfloat16, to nearest even, in the upper halves of 32-bit lanes; a NaN stays a quiet
/// NaN. The lower halves hold garbage.
template <class D, class V>
HWY_INLINE auto round_to_bfloat16(D /*d*/, V v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto up = hn::Add(bits, hn::Set(du, 0x7FFFu));
#if HWY_TARGET <= HWY_AVX3
  const auto is_odd = hn::TestBit(bits, hn::Set(du, 0x10000u));
  const auto rounded = hn::IfThenElse(is_odd, hn::Add(up, hn::Set(du, 1u)), up);
#else
  const auto rounded = hn::Add(up, hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u)));
#endif
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
}

/// 16-bit lanes of 32-bit lanes that hold less than 2¹⁶.
template <class D, class V>
HWY_INLINE auto narrow(D /*d*/, V bits) {
  const hn::Rebind<uint16_t, D> du16;
#if HWY_TARGET <= HWY_AVX3
  return hn::TruncateTo(du16, bits);
#else
  return hn::DemoteTo(du16, hn::BitCast(hn::RebindToSigned<D>(), bits));
#endif
}

#if HWY_TARGET <= HWY_AVX2

template <class D, class V16>
HWY_INLINE auto from_float16(D d, V16 bits) {
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
}

template <class D, class V>
HWY_INLINE auto to_float16(D /*d*/, V v) {
  const auto half = hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v);
  return hn::BitCast(hn::Rebind<uint16_t, D>(), half);
}

#else

template <class D, class V16>
HWY_INLINE auto from_float16(D d, V16 bits) {
  const hn::RebindToSigned<D> di;
  const auto wide = hn::BitCast(di, hn::PromoteTo(hn::RebindToUnsigned<D>(), bits));
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(di, 0x8000)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(di, 0x7FFF)));
  const auto bias = hn::Set(di, 112 << 23), smallest_normal = hn::Set(di, 113 << 23);
  const auto normal = hn::Add(magnitude, bias);
  const auto special = hn::Add(normal, bias);  // infinity and NaN: exponent 255
  // 2⁻¹⁴ + x − 2⁻¹⁴ never meets a subnormal operand, so that flushing modes do not matter.
  const auto subnormal =
      hn::BitCast(di, hn::Sub(hn::BitCast(d, hn::Add(magnitude, smallest_normal)),
                              hn::BitCast(d, smallest_normal)));
  auto result = hn::IfThenElse(hn::Gt(hn::Set(di, 1 << 23), magnitude), subnormal, normal);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, (31 << 23) - 1)), special, result);
  return hn::BitCast(d, hn::Or(result, sign));
}

template <class D, class V>
HWY_INLINE auto to_float16(D d, V v) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(di, v);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
  const auto sign = hn::ShiftRight<16>(hn::BitCast(du, hn::Xor(bits, magnitude)));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
  const auto normal =
      hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, odd), hn::Set(di, 0xFFF - (112 << 23))));
  // Adding ½ leaves the value in units of 2⁻²⁴ in the low bits, rounded to nearest even.
  const auto half = hn::Set(d, 0.5f);
  const auto subnormal =
      hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(di, half));
  const auto infinity = hn::Set(di, 0x7C00);
  const auto nan =
      hn::Or(hn::Set(di, 0x7E00), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 0x3FF)));
  auto result = hn::IfThenElse(hn::Gt(hn::Set(di, 113 << 23), magnitude), subnormal, normal);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, (143 << 23) - 1)), infinity, result);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7F800000)), nan, result);
  return narrow(d, hn::Or(hn::BitCast(du, result), sign));
}

#endif  // HWY_TARGET

template <class D>
HWY_INLINE auto load(D d, const float* from, AllLanes = {}) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE auto load(D d, const BFloat16* from, AllLanes = {}) {
  const hn::Rebind<uint16_t, D> du16;
  const auto bits = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), bits)));
}

template <class D>
HWY_INLINE auto load(D d, const Float16* from, AllLanes = {}) {
  const hn::Rebind<uint16_t, D> du16;
  return from_float16(d, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(from)));
}

template <class D, class V>
HWY_INLINE void store(D d, V v, float* to, AllLanes = {}) {
  hn::StoreU(v, d, to);
}

template <class D, class V>
HWY_INLINE void store(D d, V v, BFloat16* to, AllLanes = {}) {
  hn::StoreU(narrow(d, hn::ShiftRight<16>(round_to_bfloat16(d, v))), hn::Rebind<uint16_t, D>(),
             reinterpret_cast<uint16_t*>(to));
}

template <class D, class V>
HWY_INLINE void store(D d, V v, Float16* to, AllLanes = {}) {
  hn::StoreU(to_float16(d, v), hn::Rebind<uint16_t, D>(), reinterpret_cast<uint16_t*>(to));
}

/// Stores, and returns what a load would now give.
template <class D, class V>
HWY_INLINE V store_rounded(D d, V v, float* to, AllLanes = {}) {
  hn::StoreU(v, d, to);
  return v;
}

template <class D, class V>
HWY_INLINE V store_rounded(D d, V v, BFloat16* to, AllLanes = {}) {
  const hn::RebindToUnsigned<D> du;
  const auto rounded = round_to_bfloat16(d, v);
  hn::StoreU(narrow(d, hn::ShiftRight<16>(rounded)), hn::Rebind<uint16_t, D>(),
             reinterpret_cast<uint16_t*>(to));
  return hn::BitCast(d, hn::And(rounded, hn::Set(du, 0xFFFF0000u)));
}

template <class D, class V>
HWY_INLINE V store_rounded(D d, V v, Float16* to, AllLanes = {}) {
  const auto bits = to_float16(d, v);
  hn::StoreU(bits, hn::Rebind<uint16_t, D>(), reinterpret_cast<uint16_t*>(to));
  return from_float16(d, bits);
}

/// Lanes from `count` on are zero; no memory beyond `count` elements is read.
template <class D, class T>
HWY_INLINE auto load(D d, const T* from, SomeLanes lanes) {
  alignas(64) T buffer[hn::MaxLanes(D())] = {};
  std::memcpy(buffer, from, lanes.count * sizeof(T));
  return load(d, static_cast<const T*>(buffer));
}

/// No memory beyond `count` elements is written.
template <class D, class V, class T>
HWY_INLINE void store(D d, V v, T* to, SomeLanes lanes) {
  alignas(64) T buffer[hn::MaxLanes(D())];
  store(d, v, static_cast<T*>(buffer));
  std::memcpy(to, buffer, lanes.count * sizeof(T));
}

/// As above; the lanes from `count` on are zero.
template <class D, class V, class T>
HWY_INLINE V store_rounded(D d, V v, T* to, SomeLanes lanes) {
  store(d, v, to, lanes);
  return load(d, static_cast<const T*>(to), lanes);
}

/// v with zeros in the lanes that are not part of `lanes`.
template <class D, class V>
HWY_INLINE V zero_others(D /*d*/, V v, AllLanes) {
  return v;
}

template <class D, class V>
HWY_INLINE V zero_others(D d, V v, SomeLanes lanes) {
  return hn::IfThenElseZero(hn::FirstN(d, lanes.count), v);
}

/// v with `other` in the lanes that are not part of `lanes`.
template <class D, class V>
HWY_INLINE V replace_others(D /*d*/, V v, V /*other*/, AllLanes) {
  return v;
}

template <class D, class V>
HWY_INLINE V replace_others(D d, V v, V other, SomeLanes lanes) {
  return hn::IfThenElse(hn::FirstN(d, lanes.count), v, other);
}

/// Calls f(std::type_identity<T>()) with the storage type of a floating dtype.
template <class Function>
HWY_INLINE void visit_storage(DType dtype, const Function& f) {
  if (dtype == DType::kFloat32) return f(std::type_identity<float>());
  if (dtype == DType::kBFloat16) return f(std::type_identity<BFloat16>());
  f(std::type_identity<Float16>());
}

/// The same for a compute dtype and a residual dtype, which is the compute dtype or float32.
template <class Function>
HWY_INLINE void visit_storage(DType compute, DType residual, const Function& f) {
  visit_storage(compute, [&](auto c) {
    if (residual == DType::kFloat32) return f(c, std::type_identity<float>());
    f(c, c);
  });
}

/// Calls body(i, lanes) for i = 0, N, 2N, … < count, with SomeLanes for a shorter last vector.
template <class D, class Body>
HWY_INLINE void for_vectors(D d, int64_t count, const Body& body) {
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + step <= count; i += step) body(i, AllLanes{});
  if (i < count) body(i, SomeLanes{static_cast<size_t>(count - i)});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_VECTOR_INL_H_
