#include "engine/trainer/rank_crew.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/base/wait_meter.h"

namespace plait {
namespace {

constexpr std::chrono::milliseconds kTick{100};

}  // namespace

RankCrew::RankCrew(const Options& options, Clock& clock)
    : options_(options),
      clock_(clock),
      has_part_(static_cast<size_t>(options.local_ranks)),
      is_running_(static_cast<size_t>(options.local_ranks)) {
  threads_.reserve(has_part_.size());
  try {
    for (int64_t local = 0; local < options_.local_ranks; ++local) {
      threads_.push_back(start_library_thread([this, local] { loop(local); }));
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

RankCrew::~RankCrew() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankCrew::loop(int64_t local) {
  char name[32];
  std::snprintf(name, sizeof name, "plait-rank-%lld",
                static_cast<long long>(options_.first_rank + local));
  enter_library_thread(name, options_.is_flushing);
  if (options_.hooks.start) options_.hooks.start(name);
  const auto index = static_cast<size_t>(local);
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (!has_part_[index]) {
      changed_.wait_for(lock, kTick);
      continue;
    }
    has_part_[index] = false;
    // The call keeps part_ until all parts have ended.
    lock.unlock();
    std::exception_ptr failure;
    try {
      part_(local);
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure != nullptr && options_.on_failure) options_.on_failure(local, failure);
    lock.lock();
    if (failure != nullptr && failure_ == nullptr) failure_ = failure;
    is_running_[index] = false;
    if (--open_ == 0) changed_.notify_all();
  }
  lock.unlock();
  if (options_.hooks.stop) options_.hooks.stop();
}

RankCrew::End RankCrew::run(std::function<void(int64_t local)> part, const Limits& limits) {
  {
    const std::lock_guard lock(mutex_);
    check(open_ == 0, "a crew runs one call at a time");
    part_ = std::move(part);
    failure_ = nullptr;
    open_ = size();
    std::fill(has_part_.begin(), has_part_.end(), true);
    std::fill(is_running_.begin(), is_running_.end(), true);
  }
  changed_.notify_all();
  return watch(limits);
}

RankCrew::End RankCrew::watch(const Limits& limits) {
  const int64_t start = clock_.now_ns();
  WaitMeter unchanged(start);
  uint64_t seen = limits.progress != nullptr ? limits.progress->load() : 0;
  bool has_warned = false;
  std::unique_lock lock(mutex_);
  while (open_ > 0) {
    changed_.wait_for(lock, kTick);
    if (open_ == 0) break;
    const int64_t now = clock_.now_ns();
    if (limits.progress != nullptr && limits.progress->load() != seen) {
      seen = limits.progress->load();
      unchanged = WaitMeter(now);
      has_warned = false;
    }
    const int64_t passed_ms = (now - start) / 1'000'000;
    if (limits.timeout_ms > 0 && passed_ms >= limits.timeout_ms) return End::kTimeout;
    const int64_t unchanged_ms = unchanged.passed_ms(now);
    const bool is_late = limits.stall_ms > 0 && unchanged_ms >= limits.stall_ms;
    const bool is_slow = !has_warned && limits.warn_ms > 0 && unchanged_ms >= limits.warn_ms;
    if (!is_late && !is_slow) continue;
    lock.unlock();
    if (is_slow) limits.on_slow(unchanged_ms);
    const bool is_stalled = is_late && (!limits.is_stalled || limits.is_stalled());
    lock.lock();
    has_warned = has_warned || is_slow;
    if (is_stalled && open_ > 0) return End::kStalled;
  }
  return End::kDone;
}

bool RankCrew::wait(int64_t limit_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(limit_ms),
                           [this] { return open_ == 0; });
}

std::vector<int64_t> RankCrew::running() const {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> out;
  for (size_t i = 0; i < is_running_.size(); ++i) {
    if (is_running_[i]) out.push_back(static_cast<int64_t>(i));
  }
  return out;
}

}  // namespace plait
