// Work that outlives the call that began it: progress, cancelling, waiting, and its one end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "kernels/base/env.h"

namespace plait {

/// Shared by who waits and who works. Any thread may call any method; `run`, or one of `finish`
/// and `fail`, ends it, once.
class AsyncOperation {
 public:
  /// Numbers of the C ABI.
  enum class State : int32_t { kRunning = 1, kDone = 2, kFailed = 3, kCancelled = 4 };
  struct Progress {
    State state = State::kRunning;
    int64_t done_bytes = 0, total_bytes = 0;
  };
  /// Does the work and returns the JSON report; throws on failure, `cancelled` when it saw the
  /// cancel flag in time.
  using Body = std::function<std::string(AsyncOperation& operation)>;

  explicit AsyncOperation(Clock& clock) : clock_(clock) {}

  /// Runs `body` on the caller's thread and ends as it does. Never throws.
  void run(const Body& body);
  /// Ends with success; nothing happens where it has ended already.
  void finish(std::string report);
  /// Ends with a failure, or as cancelled where that is an Error of this code; likewise.
  void fail(std::exception_ptr failure);

  void set_progress(int64_t done_bytes, int64_t total_bytes);
  /// Counts what is done, for workers that add to it.
  std::atomic<int64_t>& done_bytes() { return done_bytes_; }

  /// A wish, which whoever works sees in time or too late.
  void cancel() { is_cancelled_.store(true); }
  const std::atomic<bool>& cancel_flag() const { return is_cancelled_; }

  Progress progress() const;
  /// Waits for the end; false when `timeout_ms` (0: none, −1: no limit) is over before.
  bool wait(int64_t timeout_ms) const;
  /// Report of a success; rethrows what ended it otherwise; `busy` while it runs.
  std::string result() const;

 private:
  void end(State state, std::string report, std::exception_ptr failure);

  Clock& clock_;
  std::atomic<bool> is_cancelled_{false};
  std::atomic<int64_t> done_bytes_{0}, total_bytes_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  State state_ = State::kRunning;
  std::string report_;
  std::exception_ptr failure_;
};

}  // namespace plait
