// The thread of one local rank: the engine computes only there and in the compute pool. A call
// hands it one task and waits, always with a deadline.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "kernels/base/env.h"
#include "kernels/base/function_ref.h"
#include "kernels/device/thread_pool.h"

namespace plait {

class RankThread {
 public:
  /// Limits of one wait. The watch looks at `progress`: a task whose counter stands still for
  /// `stall_ms` has stalled.
  struct Limits {
    int64_t timeout_ms = -1;  ///< of the call; −1: none of its own
    int64_t stall_ms = 0;
    const std::atomic<uint64_t>* progress = nullptr;
  };
  enum class End { kDone, kTimeout, kStalled };

  RankThread(int32_t rank, Clock& clock, const ThreadHooks& hooks, bool is_flushing);
  /// Waits for a running task to end; set the abort flag that its ops look at first.
  ~RankThread();
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

  /// Runs `task` on the thread. Rethrows what it threw. After kTimeout or kStalled the task still
  /// runs, and `task` must stay valid until this object is gone: pass a copy that owns its data.
  End run(std::function<void()> task, const Limits& limits);
  /// After kTimeout or kStalled: waits at most `limit_ms` for the task to end after all.
  void wait(int64_t limit_ms);

 private:
  void loop(int32_t rank, const ThreadHooks& hooks, bool is_flushing);

  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;
  std::exception_ptr failure_;
  bool has_task_ = false, is_done_ = false, is_stopping_ = false;
  std::thread thread_;
};

}  // namespace plait
