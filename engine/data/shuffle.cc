#include "engine/data/shuffle.h"

#include <algorithm>
#include <bit>
#include <string>

namespace plait {

Shuffle::Shuffle(uint64_t seed, int64_t set, int64_t count)
    : key_(stream_key("shuffle/" + std::to_string(set), seed)),
      count_(static_cast<uint64_t>(count)),
      half_bits_(std::max(1, (static_cast<int>(std::bit_width(count_ - 1)) + 1) / 2)) {}

int64_t Shuffle::permute(int64_t epoch, int64_t x) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  const uint32_t epoch_low = static_cast<uint32_t>(epoch);
  const uint32_t epoch_high = static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32);
  uint64_t value = static_cast<uint64_t>(x);
  do {
    uint64_t left = value >> half_bits_, right = value & mask;
    for (uint32_t round = 0; round < 8; ++round) {
      const PhiloxBlock words =
          philox(key_, {static_cast<uint32_t>(right), round, epoch_low, epoch_high});
      const uint64_t next = left ^ (words[0] & mask);
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= count_);
  return static_cast<int64_t>(value);
}

}  // namespace plait
