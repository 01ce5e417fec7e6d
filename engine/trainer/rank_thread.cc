#include "engine/trainer/rank_thread.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr std::chrono::milliseconds kTick{100};

}  // namespace

RankThread::RankThread(int32_t rank, Clock& clock, const ThreadHooks& hooks, bool is_flushing)
    : clock_(clock) {
  thread_ =
      start_library_thread([this, rank, hooks, is_flushing] { loop(rank, hooks, is_flushing); });
}

RankThread::~RankThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RankThread::loop(int32_t rank, const ThreadHooks& hooks, bool is_flushing) {
  char name[32];
  std::snprintf(name, sizeof name, "plait-rank-%d", rank);
  enter_library_thread(name, is_flushing);
  if (hooks.start) hooks.start(name);
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (!has_task_) {
      changed_.wait_for(lock, kTick);
      continue;
    }
    has_task_ = false;
    std::function<void()> task = std::move(task_);
    lock.unlock();
    std::exception_ptr failure;
    try {
      task();
    } catch (...) {
      failure = std::current_exception();
    }
    task = nullptr;
    lock.lock();
    failure_ = failure;
    is_done_ = true;
    changed_.notify_all();
  }
  lock.unlock();
  if (hooks.stop) hooks.stop();
}

void RankThread::wait(int64_t limit_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(limit_ms), [this] { return is_done_; });
}

RankThread::End RankThread::run(std::function<void()> task, const Limits& limits) {
  const int64_t start = clock_.now_ns();
  int64_t last_change = start;
  uint64_t seen = limits.progress != nullptr ? limits.progress->load() : 0;
  std::unique_lock lock(mutex_);
  check(!has_task_, "a rank thread runs one task at a time");
  task_ = std::move(task);
  has_task_ = true;
  is_done_ = false;
  changed_.notify_all();
  while (!is_done_) {
    changed_.wait_for(lock, kTick);
    if (is_done_) break;
    const int64_t now = clock_.now_ns();
    if (limits.progress != nullptr && limits.progress->load() != seen) {
      seen = limits.progress->load();
      last_change = now;
    }
    const auto passed = [now](int64_t since) { return (now - since) / 1'000'000; };
    if (limits.timeout_ms > 0 && passed(start) >= limits.timeout_ms) return End::kTimeout;
    if (limits.stall_ms > 0 && passed(last_change) >= limits.stall_ms) return End::kStalled;
  }
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  return End::kDone;
}

}  // namespace plait
