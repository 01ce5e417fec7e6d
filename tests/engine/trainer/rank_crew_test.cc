// The watch over a call of the ranks, by a clock that the test moves.
#include "engine/trainer/rank_crew.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

using namespace plait;

namespace {

/// Goes with the real one, and jumps when it is told to.
class JumpingClock final : public Clock {
 public:
  int64_t now_ns() override { return posix_env().clock.now_ns() + ahead_ns_.load(); }
  int64_t wall_ns() override { return posix_env().clock.wall_ns(); }
  void jump(int64_t seconds) { ahead_ns_ += seconds * 1'000'000'000; }

 private:
  std::atomic<int64_t> ahead_ns_{0};
};

/// One rank that works for 400 ms without progress; after 150 ms the clock jumps.
RankCrew::End run_with_jump(int64_t jump_s, const RankCrew::Limits& limits) {
  JumpingClock clock;
  RankCrew crew({}, clock);
  const auto part = [&](int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    clock.jump(jump_s);
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  };
  const RankCrew::End end = crew.run(part, limits);
  while (!crew.wait(1000)) {
  }
  return end;
}

}  // namespace

TEST_CASE("ranks that stood still with their process have not stalled", "[crew]") {
  RankCrew::Limits limits;
  std::atomic<uint64_t> progress{0};
  limits.progress = &progress;
  limits.stall_ms = 60'000;
  CHECK(run_with_jump(600, limits) == RankCrew::End::kDone);
  limits.stall_ms = 200;
  CHECK(run_with_jump(0, limits) == RankCrew::End::kStalled);
  limits.stall_ms = 0;
  limits.timeout_ms = 60'000;  // what the host asked for is time, whatever passed in it
  CHECK(run_with_jump(600, limits) == RankCrew::End::kTimeout);
}
