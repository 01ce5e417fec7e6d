// How long something has been waited for, without the time in which the whole process stood still:
// stopped by a signal, or asleep with its machine. What did not run cannot be late.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plait {

/// One thread at a time.
class WaitMeter {
 public:
  explicit WaitMeter(int64_t now_ns) : last_ns_(now_ns) {}

  /// Milliseconds waited until `now_ns`. Who waits asks every 100 ms or so; of a longer gap between
  /// two questions a second counts.
  int64_t passed_ms(int64_t now_ns) {
    passed_ns_ += std::min(now_ns - last_ns_, kMostOfGapNs);
    last_ns_ = now_ns;
    return passed_ns_ / 1'000'000;
  }

 private:
  static constexpr int64_t kMostOfGapNs = 1'000'000'000;
  int64_t last_ns_, passed_ns_ = 0;
};

}  // namespace plait
