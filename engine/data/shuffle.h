// The order of samples inside an epoch: a Feistel permutation walked into range ("cycle walking",
// Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). No index is built.
#pragma once

#include <cstdint>

#include "kernels/base/random.h"

namespace plait {

class Shuffle {
 public:
  /// For data set `set` (from 0) of the run with `seed`; `count` ≥ 1 samples an epoch.
  Shuffle(uint64_t seed, int64_t set, int64_t count);

  /// π_epoch(x): a permutation of [0, count) for every epoch; x in [0, count).
  int64_t permute(int64_t epoch, int64_t x) const;

 private:
  PhiloxKey key_;
  uint64_t count_;
  int half_bits_;  // q: the walk runs over [0, 2^(2q))
};

}  // namespace plait
