// The threads of a process's local ranks: the engine computes only there and in the compute pools.
// A call hands each its part and waits for all, always with a limit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/base/env.h"
#include "kernels/device/thread_pool.h"

namespace plait {

class RankCrew {
 public:
  struct Options {
    int64_t first_rank = 0;
    int64_t local_ranks = 1;
    bool is_flushing = false;
    ThreadHooks hooks;
    /// Called on the thread of a rank whose part threw, at once, so that its peers stop waiting.
    std::function<void(int64_t local, const std::exception_ptr& failure)> on_failure;
  };
  /// Limits of one call. The watch looks at `progress`: a call whose counter stands still for
  /// `stall_ms` has stalled.
  struct Limits {
    int64_t timeout_ms = -1;  ///< of the call; −1: none of its own
    int64_t stall_ms = 0;
    const std::atomic<uint64_t>* progress = nullptr;
    int64_t warn_ms = 0;  ///< a standstill of so long calls on_slow once; 0: none does
    // Both on the thread of the call, without locks.
    std::function<void(int64_t waited_ms)> on_slow;
    std::function<bool()> is_stalled;  ///< asked at stall_ms and later; empty: it is
  };
  enum class End { kDone, kTimeout, kStalled };

  RankCrew(const Options& options, Clock& clock);
  /// Waits for running parts to end; set the abort flags that they look at first.
  ~RankCrew();
  RankCrew(const RankCrew&) = delete;
  RankCrew& operator=(const RankCrew&) = delete;

  int64_t size() const { return static_cast<int64_t>(threads_.size()); }

  /// Runs part(local) for each local rank on its thread. After kTimeout or kStalled parts may still
  /// run: what `part` names must stay until `wait` returned true or this object is gone.
  End run(std::function<void(int64_t local)> part, const Limits& limits);
  /// Waits at most `limit_ms` for all parts to end after all.
  bool wait(int64_t limit_ms);
  /// After kDone: the failure that came first, or null.
  std::exception_ptr failure() const { return failure_; }
  /// Local ranks whose parts have not ended.
  std::vector<int64_t> running() const;

 private:
  void loop(int64_t local);
  End watch(const Limits& limits);

  Options options_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a part is there, or all have ended
  std::function<void(int64_t)> part_;
  std::vector<bool> has_part_, is_running_;
  int64_t open_ = 0;  // parts that have not ended
  bool is_stopping_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace plait
