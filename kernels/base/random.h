// Counter-based random numbers: no generator has state, every draw is Philox4x32-10(key, counter)
// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A stream is named; its key is XXH3_64bits_withSeed(name, seed), low word first.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plait {

struct PhiloxKey {
  uint32_t low = 0;
  uint32_t high = 0;
  bool operator==(const PhiloxKey&) const = default;
};

using PhiloxBlock = std::array<uint32_t, 4>;

/// Ten rounds; `counter` holds words c0 … c3.
constexpr PhiloxBlock philox(PhiloxKey key, PhiloxBlock counter) {
  uint32_t k0 = key.low, k1 = key.high;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

/// Key of the stream `name` under `seed`.
PhiloxKey stream_key(std::string_view name, uint64_t seed);

/// Four standard normals of one block, by Box and Muller in fp64 with in-tree functions only, so
/// that every device and compiler starts from the same bits.
std::array<double, 4> normal_block(const PhiloxBlock& words);

/// Fills out[0, count) with std · z of elements [first, first + count) of the stream: element x is
/// normal x mod 4 of the block with counter ⌊x/4⌋.
void fill_normal(PhiloxKey key, double std, int64_t first, int64_t count, float* out);

/// Which elements of a dropout site fall: drop iff word < threshold; kept ones are scaled.
/// Element x of sample g is word x mod 4 of the block {⌊x/4⌋ (two words), g (two words)}.
struct Dropout {
  PhiloxKey key;
  uint32_t threshold = 0;    ///< ⌊rate · 2³²⌋; 0 drops nothing
  float scale = 1.0f;        ///< fp32(1/(1 − rate))
  int64_t first_sample = 0;  ///< ordinal g in the run of the first sample of the micro-batch

  /// `rate` in [0, 1).
  static Dropout make(PhiloxKey key, double rate, int64_t first_sample);
  bool is_active() const { return threshold != 0; }
};

/// 0 when element `x` of sample `g` is dropped, else the scale.
constexpr float dropout_factor(const Dropout& dropout, uint64_t g, uint64_t x) {
  const PhiloxBlock words =
      philox(dropout.key, {static_cast<uint32_t>(x >> 2), static_cast<uint32_t>(x >> 34),
                           static_cast<uint32_t>(g), static_cast<uint32_t>(g >> 32)});
  return words[x & 3] < dropout.threshold ? 0.0f : dropout.scale;
}

}  // namespace plait
