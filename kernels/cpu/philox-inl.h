// Philox4x32-10 on vectors, and the dropout factors made of it. Bits equal kernels/base/random.h.
//
// Included once per Highway target, hence no #pragma once. D is a tag of float lanes.
#if defined(PLAIT_KERNELS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_PHILOX_INL_H_
#undef PLAIT_KERNELS_CPU_PHILOX_INL_H_
#else
#define PLAIT_KERNELS_CPU_PHILOX_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/base/random.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using WordTag = hn::ScalableTag<uint32_t>;
using BlockTag = hn::ScalableTag<uint64_t>;
using WordVector = hn::Vec<WordTag>;
using BlockVector = hn::Vec<BlockTag>;

/// Floats that `dropout_factors` may write beyond the `count` asked for.
inline constexpr int64_t kDropoutSlack = 68;

/// One block per 64-bit lane, word i in the low half of c[i]. High halves hold garbage.
struct PhiloxLanes {
  BlockVector c[4];
};

HWY_INLINE void philox_round(PhiloxLanes& lanes, BlockVector k0, BlockVector k1) {
  const WordTag words;
  const auto m0 = hn::Set(words, 0xD2511F53u), m1 = hn::Set(words, 0xCD9E8D57u);
  const BlockVector a = hn::MulEven(hn::BitCast(words, lanes.c[0]), m0);
  const BlockVector b = hn::MulEven(hn::BitCast(words, lanes.c[2]), m1);
  lanes.c[0] = hn::Xor3(hn::ShiftRight<32>(b), lanes.c[1], k0);
  lanes.c[1] = b;
  lanes.c[2] = hn::Xor3(hn::ShiftRight<32>(a), lanes.c[3], k1);
  lanes.c[3] = a;
}

/// All ten rounds of several vectors at once.
template <class... Lanes>
HWY_INLINE void philox_rounds(PhiloxKey key, Lanes&... lanes) {
  const BlockTag blocks;
  uint32_t k0 = key.low, k1 = key.high;
  for (int round = 0; round < 10; ++round) {
    const BlockVector v0 = hn::Set(blocks, uint64_t{k0}), v1 = hn::Set(blocks, uint64_t{k1});
    (philox_round(lanes, v0, v1), ...);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/// The words of all lanes in order of elements: those of the first half of the blocks in `low`.
/// Lane 2i holds block i, lane 2i + 1 block lanes/2 + i.
HWY_INLINE void order_words(const PhiloxLanes& lanes, WordVector& low, WordVector& high) {
  const WordTag words;
  const BlockTag blocks;
  const BlockVector mask = hn::Set(blocks, uint64_t{0xFFFFFFFFu});
  const BlockVector w01 = hn::Or(hn::And(lanes.c[0], mask), hn::ShiftLeft<32>(lanes.c[1]));
  const BlockVector w23 = hn::Or(hn::And(lanes.c[2], mask), hn::ShiftLeft<32>(lanes.c[3]));
  low = hn::BitCast(words, hn::InterleaveLower(blocks, w01, w23));
  high = hn::BitCast(words, hn::InterleaveUpper(blocks, w01, w23));
}

/// Draws the blocks first, first + 1, … of sample `sample`: as many as four word vectors hold.
HWY_INLINE void philox_words(PhiloxKey key, uint64_t first, uint64_t sample, WordVector out[4]) {
  const BlockTag blocks;
  constexpr uint64_t kLanes = hn::MaxLanes(BlockTag());
  const BlockVector lane = hn::Iota(blocks, 0);
  const BlockVector odd = hn::And(lane, hn::Set(blocks, uint64_t{1}));
  BlockVector index = hn::ShiftRight<1>(lane);
  index = hn::IfThenElse(hn::Eq(odd, hn::Set(blocks, uint64_t{1})),
                         hn::Add(index, hn::Set(blocks, kLanes / 2)), index);
  const BlockVector g0 = hn::Set(blocks, sample), g1 = hn::Set(blocks, sample >> 32);
  PhiloxLanes x, y;
  x.c[0] = hn::Add(index, hn::Set(blocks, first));
  y.c[0] = hn::Add(index, hn::Set(blocks, first + kLanes));
  x.c[1] = hn::ShiftRight<32>(x.c[0]);
  y.c[1] = hn::ShiftRight<32>(y.c[0]);
  x.c[2] = y.c[2] = g0;
  x.c[3] = y.c[3] = g1;
  philox_rounds(key, x, y);
  order_words(x, out[0], out[1]);
  order_words(y, out[2], out[3]);
}

/// Factors (0 or the scale) of elements x, x + 1, …, x + count − 1 of sample `sample`. Returns the
/// place of the first inside `buffer`, which is aligned to 64 bytes and holds count +
/// kDropoutSlack floats.
template <class D>
HWY_INLINE const float* dropout_factors(D d, const Dropout& dropout, uint64_t sample, uint64_t x,
                                        int64_t count, float* buffer) {
  const WordTag words;
  const WordVector threshold = hn::Set(words, dropout.threshold);
  const auto scale = hn::Set(d, dropout.scale);
  const auto skipped = static_cast<int64_t>(x & 3);
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  uint64_t block = x >> 2;
  for (int64_t i = 0; i < count + skipped; i += 4 * step) {
    WordVector drawn[4];
    philox_words(dropout.key, block, sample, drawn);
    for (int64_t j = 0; j < 4; ++j) {
      const auto is_dropped = hn::RebindMask(d, hn::Lt(drawn[j], threshold));
      hn::Store(hn::IfThenZeroElse(is_dropped, scale), d, buffer + i + j * step);
    }
    block += static_cast<uint64_t>(step);
  }
  return buffer + skipped;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_PHILOX_INL_H_
