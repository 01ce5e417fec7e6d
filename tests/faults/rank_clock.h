// A clock through which a test reaches into a running step: every rank asks it for the time before
// and after each instruction, on its own thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "kernels/base/env.h"
#include "kernels/base/error.h"
#include "kernels/device/thread_pool.h"

namespace plait::test {

class RankClock final : public Clock {
 public:
  RankClock() : env_{posix_env().files, *this, posix_env().entropy} {}

  Env& env() { return env_; }
  /// For the engine, so that its ranks are known by their threads.
  ThreadHooks hooks() {
    ThreadHooks hooks;
    hooks.start = [](const char* name) {
      constexpr char kPrefix[] = "plait-rank-";
      const bool is_rank = std::strncmp(name, kPrefix, sizeof kPrefix - 1) == 0;
      own_rank() = is_rank ? std::atoll(name + sizeof kPrefix - 1) : -1;
    };
    return hooks;
  }

  /// At the `nth` question (from 0) of rank `rank` from now on, `fault` runs in its thread; once.
  void arm(int64_t rank, int64_t nth, std::function<void()> fault) {
    fault_ = std::move(fault);
    left_ = nth;
    rank_ = rank;
  }
  void disarm() { rank_ = -1; }
  bool is_armed() const { return rank_ >= 0; }

  int64_t now_ns() override {
    const int64_t rank = own_rank();
    if (rank >= 0 && rank == rank_.load() && left_.fetch_sub(1) == 0) {
      rank_ = -1;
      fault_();
    }
    return posix_env().clock.now_ns();
  }
  int64_t wall_ns() override { return posix_env().clock.wall_ns(); }

 private:
  static int64_t& own_rank() {
    thread_local int64_t rank = -1;
    return rank;
  }

  Env env_;
  std::function<void()> fault_;
  std::atomic<int64_t> left_{0}, rank_{-1};
};

}  // namespace plait::test
