#include "kernels/base/dtype.h"

namespace plait {

Float16 to_float16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return {static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu))};
  }
  if (magnitude >= 0x477FF000u) return {static_cast<uint16_t>(sign | 0x7C00u)};  // rounds past max
  if (magnitude < 0x33000001u) return {static_cast<uint16_t>(sign)};  // half of the least, or less
  uint32_t mantissa, shift, base;
  if (magnitude < 0x38800000u) {  // subnormal: shift the full mantissa into place
    mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
    shift = 126u - (magnitude >> 23);
    base = 0;
  } else {
    mantissa = magnitude - 0x38000000u;
    shift = 13;
    base = 0;
  }
  const uint32_t half = (1u << (shift - 1)) - 1u + ((mantissa >> shift) & 1u);
  return {static_cast<uint16_t>(sign | (base + ((mantissa + half) >> shift)))};
}

float to_float(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 31u;
  const uint32_t mantissa = value.bits & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal or zero: exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

}  // namespace plait
