#include "kernels/base/async_operation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/base/error.h"

namespace plait {

void AsyncOperation::run(const Body& body) {
  std::string report;
  try {
    report = body(*this);
  } catch (...) {
    return fail(std::current_exception());
  }
  finish(std::move(report));
}

void AsyncOperation::finish(std::string report) { end(State::kDone, std::move(report), nullptr); }

void AsyncOperation::fail(std::exception_ptr failure) {
  State state = State::kFailed;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.code() == Code::kCancelled) state = State::kCancelled;
  } catch (...) {
    // Whatever it is, whoever asks for the result gets it.
  }
  end(state, "", std::move(failure));
}

void AsyncOperation::end(State state, std::string report, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kRunning) return;
  report_ = std::move(report);
  failure_ = std::move(failure);
  state_ = state;
  changed_.notify_all();
}

void AsyncOperation::set_progress(int64_t done_bytes, int64_t total_bytes) {
  done_bytes_.store(done_bytes, std::memory_order_relaxed);
  total_bytes_.store(total_bytes, std::memory_order_relaxed);
}

AsyncOperation::Progress AsyncOperation::progress() const {
  Progress value;
  value.done_bytes = done_bytes_.load(std::memory_order_relaxed);
  value.total_bytes = total_bytes_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  value.state = state_;
  return value;
}

bool AsyncOperation::wait(int64_t timeout_ms) const {
  constexpr int64_t kSliceNs = 1'000'000'000;
  const int64_t limit_ns =
      timeout_ms < 0 ? INT64_MAX : std::min(timeout_ms, int64_t{1} << 40) * 1'000'000;
  const int64_t begin = clock_.now_ns();
  std::unique_lock lock(mutex_);
  while (state_ == State::kRunning) {
    const int64_t left = limit_ns - (clock_.now_ns() - begin);
    if (left <= 0) return false;
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left, kSliceNs)));
  }
  return true;
}

std::string AsyncOperation::result() const {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kRunning) throw Error("busy", "the operation is still running");
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  return report_;
}

}  // namespace plait
