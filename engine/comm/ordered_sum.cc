#include "engine/comm/ordered_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kBlock = 1024;           // floats on the stack
constexpr int64_t kGrain = 32 * kBlock;    // elements of one task of the pool
constexpr int64_t kCopyGrain = 256 << 10;  // bytes of one

/// condition ? a : b, in words that leave no branch in a loop.
inline uint32_t select(bool condition, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

// The conversions of Float16 without branches, so that loops over them become vector code. Same
// bits as to_float and to_float16 (kernels/base/dtype.h), in flushing mode too.
inline float widen(Float16 value) {
  constexpr uint32_t kExponent = 0x7C00u << 13;
  const uint32_t shifted = static_cast<uint32_t>(value.bits & 0x7FFFu) << 13;
  const uint32_t exponent = shifted & kExponent;
  const uint32_t normal = shifted + (112u << 23);
  const uint32_t infinite = shifted + (224u << 23);
  const float subnormal =
      std::bit_cast<float>(shifted + (113u << 23)) - std::bit_cast<float>(113u << 23);
  uint32_t bits = select(exponent == kExponent, infinite, normal);
  bits = select(exponent == 0, std::bit_cast<uint32_t>(subnormal), bits);
  return std::bit_cast<float>(bits | (static_cast<uint32_t>(value.bits & 0x8000u) << 16));
}
inline float widen(BFloat16 value) { return to_float(value); }
inline float widen(float value) { return value; }

inline void narrow(float value, Float16* to) {
  constexpr uint32_t kMagic = 126u << 23;  // its last bit weighs as much as that of a subnormal
  const uint32_t all = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = all & 0x7FFFFFFFu;
  const uint32_t nan = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  const uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic)) -
      kMagic;
  uint32_t bits = select(magnitude < 0x38800000u, subnormal, normal);
  bits = select(magnitude >= 0x47800000u, 0x7C00u, bits);
  bits = select(magnitude > 0x7F800000u, nan, bits);
  to->bits = static_cast<uint16_t>(bits | ((all >> 16) & 0x8000u));
}
inline void narrow(float value, float* to) { *to = value; }
inline void narrow(float value, BFloat16* to) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  to->bits = static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

struct Sum {
  static float combine(float sum, float next) { return sum + next; }
};
struct Maximum {
  static float combine(float largest, float next) {
    // A NaN that comes is taken, for it is not less; one that is there stays.
    return std::bit_cast<float>(select((next < largest) | (largest != largest),
                                       std::bit_cast<uint32_t>(largest),
                                       std::bit_cast<uint32_t>(next)));
  }
};

/// values[i] ← the combination of all parts at first + i.
template <class Rule, class T>
void combine_block(const OrderedParts& in, int64_t first, int64_t count, float* values) {
  const auto part = [&](int64_t member) {
    return reinterpret_cast<const T*>(in.parts[member]) + first;
  };
  const T* __restrict left = part(0);
  if (in.members == 1) {
    for (int64_t i = 0; i < count; ++i) values[i] = widen(left[i]);
    return;
  }
  const T* __restrict right = part(1);
  for (int64_t i = 0; i < count; ++i) values[i] = Rule::combine(widen(left[i]), widen(right[i]));
  for (int64_t member = 2; member < in.members; ++member) {
    const T* __restrict next = part(member);
    for (int64_t i = 0; i < count; ++i) values[i] = Rule::combine(values[i], widen(next[i]));
  }
}

/// values[i] ← the tree over `members` parts from `member` on, rounded to the dtype.
template <class T>
void sum_tree(const OrderedParts& in, int64_t first, int64_t count, int64_t member, int64_t members,
              float* values) {
  if (members == 1) {
    const T* part = reinterpret_cast<const T*>(in.parts[member]) + first;
    for (int64_t i = 0; i < count; ++i) values[i] = widen(part[i]);
    return;
  }
  float right[kBlock];
  sum_tree<T>(in, first, count, member, members / 2, values);
  sum_tree<T>(in, first, count, member + members / 2, members / 2, right);
  for (int64_t i = 0; i < count; ++i) {
    T rounded;
    narrow(values[i] + right[i], &rounded);
    values[i] = widen(rounded);
  }
}

/// A few parts of float32 whose result goes to as many places, in one pass: what the ranks of a
/// process do most.
template <class Rule, int kMembers>
void combine_few(const OrderedParts& in, int64_t first, int64_t last) {
  const float* parts[kMembers];
  float* targets[kMembers];
  for (int member = 0; member < kMembers; ++member) {
    parts[member] = reinterpret_cast<const float*>(in.parts[member]);
    targets[member] = reinterpret_cast<float*>(in.targets[member]);
  }
#ifndef __clang__  // which does not know it
#pragma GCC ivdep  // a target is a part or apart from it
#endif
  for (int64_t i = first; i < last; ++i) {
    float value = parts[0][i];
    for (int member = 1; member < kMembers; ++member) {
      value = Rule::combine(value, parts[member][i]);
    }
    for (int copy = 0; copy < kMembers; ++copy) targets[copy][i] = value;
  }
}

template <class Rule, class T>
void combine_range(const OrderedParts& in, int64_t first, int64_t last) {
  float values[kBlock];
  T rounded[kBlock];
  for (int64_t at = first; at < last; at += kBlock) {
    const int64_t count = std::min(kBlock, last - at);
    if (in.order == SumOrder::kTree && in.members > 2) {
      sum_tree<T>(in, at, count, 0, in.members, values);
    } else {
      combine_block<Rule, T>(in, at, count, values);
    }
    for (int64_t i = 0; i < count; ++i) narrow(values[i], rounded + i);
    for (int64_t copy = 0; copy < in.copies; ++copy) {
      std::memcpy(reinterpret_cast<T*>(in.targets[copy]) + at, rounded,
                  static_cast<size_t>(count) * sizeof(T));
    }
  }
}

template <class Rule, class T>
void combine_all(const OrderedParts& in, ThreadPool* pool) {
  const auto range = [&](int64_t first, int64_t last, int) {
    if constexpr (std::is_same_v<T, float>) {
      const bool is_tree = in.order == SumOrder::kTree && in.members > 2;
      const int64_t few = in.members == in.copies && !is_tree ? in.members : 0;
      if (few == 2) return combine_few<Rule, 2>(in, first, last);
      if (few == 4) return combine_few<Rule, 4>(in, first, last);
    }
    combine_range<Rule, T>(in, first, last);
  };
  if (pool == nullptr || in.elements <= kGrain) {
    range(0, in.elements, 0);
  } else {
    pool->run_range(in.elements, kGrain, range);
  }
}

}  // namespace

void ordered_sum(const OrderedParts& in, ThreadPool* pool) {
  check(in.order == SumOrder::kAscending || std::has_single_bit(static_cast<uint64_t>(in.members)),
        "a tree of sums is over a power of two of ranks");
  switch (in.dtype) {
    case DType::kFloat32:
      return combine_all<Sum, float>(in, pool);
    case DType::kBFloat16:
      return combine_all<Sum, BFloat16>(in, pool);
    case DType::kFloat16:
      return combine_all<Sum, Float16>(in, pool);
    default:
      check(false, "sums over ranks are of float32, bfloat16 or float16");
  }
}

void ordered_maximum(const OrderedParts& in, ThreadPool* pool) {
  check(in.dtype == DType::kFloat32 && in.order == SumOrder::kAscending,
        "maxima over ranks are of float32");
  combine_all<Maximum, float>(in, pool);
}

void parallel_copy(void* to, const void* from, int64_t bytes, ThreadPool* pool) {
  const auto range = [&](int64_t first, int64_t last, int) {
    std::memcpy(static_cast<char*>(to) + first, static_cast<const char*>(from) + first,
                static_cast<size_t>(last - first));
  };
  if (bytes <= 0) return;
  if (pool == nullptr || bytes <= kCopyGrain) {
    range(0, bytes, 0);
  } else {
    pool->run_range(bytes, kCopyGrain, range);
  }
}

}  // namespace plait
