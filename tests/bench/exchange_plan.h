// What is measured between ranks: the same in Plait and in a peer.
#pragma once

#include <cstdint>

namespace plait::bench {

/// All-reduces of float32 buffers, and how many of each one run times.
struct ExchangeSize {
  int64_t bytes = 0;
  int timed = 0;
};
inline constexpr ExchangeSize kExchangeSizes[] = {
    {64 << 10, 200}, {1 << 20, 80}, {16 << 20, 10}, {64 << 20, 5}};
inline constexpr int kUntimed = 3;  ///< of each size, first

/// Round trips of so many bytes.
inline constexpr int64_t kPingBytes = 8;
inline constexpr int kPings = 3000, kUntimedPings = 300;

/// Element `i` of a member's buffer: sums of a few are exact in float32.
inline float exchange_value(int64_t member, int64_t i) {
  const auto mixed = static_cast<uint32_t>(i * 2654435761u + member * 40503);
  return static_cast<float>(mixed >> 21) - 700.0f * static_cast<float>(member);
}

/// Fills a member's buffer.
inline void fill_exchange(float* values, int64_t count, int64_t member) {
  for (int64_t i = 0; i < count; ++i) values[i] = exchange_value(member, i);
}

/// Whether each element is the sum over all members.
inline bool is_exchange_sum(const float* values, int64_t count, int64_t members) {
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int64_t member = 0; member < members; ++member) sum += exchange_value(member, i);
    if (values[i] != sum) return false;
  }
  return true;
}

}  // namespace plait::bench
