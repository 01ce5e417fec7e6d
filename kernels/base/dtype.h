// Element types. The numbers are those of the C ABI and of the checkpoint format.
#pragma once

#include <bit>
#include <cstdint>

namespace plait {

enum class DType : int32_t {
  kFloat32 = 1,
  kBFloat16 = 2,
  kFloat16 = 3,
  kInt32 = 6,
  kInt64 = 7,
  kUInt8 = 8,
};

/// Bytes of one element.
constexpr int64_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kInt64:
      return 8;
    case DType::kUInt8:
      return 1;
  }
  return 0;
}

constexpr const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUInt8:
      return "uint8";
  }
  return "unknown";
}

/// Storage of a bfloat16; arithmetic happens in float.
struct BFloat16 {
  uint16_t bits;
};

/// Storage of an IEEE binary16; arithmetic happens in float.
struct Float16 {
  uint16_t bits;
};

/// Rounds to nearest even; a NaN stays a (quiet) NaN.
constexpr BFloat16 to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

/// Rounds to nearest even, subnormals included; too large becomes infinity; a NaN stays a NaN.
Float16 to_float16(float value);
float to_float(Float16 value);
constexpr float to_float(float value) { return value; }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};

/// Rounds a float to the storage type T.
template <class T>
inline T from_float(float value);
template <>
inline float from_float<float>(float value) {
  return value;
}
template <>
inline BFloat16 from_float<BFloat16>(float value) {
  return to_bfloat16(value);
}
template <>
inline Float16 from_float<Float16>(float value) {
  return to_float16(value);
}

}  // namespace plait
