#include "kernels/device/thread_pool.h"

#include <fenv.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <cstdio>
#include <system_error>
#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int kSpins = 200;

/// Sleeps while `word` holds `value`, at most 100 ms; callers look again in a loop.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  const timespec limit{0, 100'000'000};
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, &limit,
            nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr,
            nullptr, 0);
}

/// Waits until `word` differs from `value`: a short spin, then sleeps.
uint32_t wait_for_change(std::atomic<uint32_t>& word, uint32_t value) {
  for (int i = 0; i < kSpins; ++i) {
    const uint32_t now = word.load(std::memory_order_acquire);
    if (now != value) return now;
    _mm_pause();
  }
  for (;;) {
    const uint32_t now = word.load(std::memory_order_acquire);
    if (now != value) return now;
    futex_wait(word, value);
  }
}

class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

void enter_library_thread(const char* name, bool is_flushing) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  char shown[16];  // the longest that Linux takes
  std::snprintf(shown, sizeof shown, "%s", name);
  pthread_setname_np(pthread_self(), shown);
  fesetenv(FE_DFL_ENV);
  if (is_flushing) _mm_setcsr(_mm_getcsr() | 0x8040u);
}

std::thread start_library_thread(std::function<void()> body) {
  const AllSignalsBlocked blocked;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw Error("no_memory", "a thread could not be started").with("errno", error.code().value());
  }
}

ThreadPool::ThreadPool(int threads, const ThreadHooks& hooks, bool is_flushing)
    : threads_(threads < 1 ? 1 : threads) {
  workers_.reserve(static_cast<size_t>(threads_ - 1));
  try {
    for (int i = 1; i < threads_; ++i) {
      workers_.push_back(
          start_library_thread([this, i, hooks, is_flushing] { work(i, hooks, is_flushing); }));
    }
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  is_stopping_.store(true, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  futex_wake(epoch_, threads_);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::work(int worker, const ThreadHooks& hooks, bool is_flushing) {
  char name[32];  // no memory is asked for where nobody could be told that there is none
  std::snprintf(name, sizeof name, "plait-compute-%d", worker);
  enter_library_thread(name, is_flushing);
  if (hooks.start) hooks.start(name);
  uint32_t seen = 0;
  for (;;) {
    seen = wait_for_change(epoch_, seen);
    if (is_stopping_.load(std::memory_order_acquire)) break;
    take_chunks(worker);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) futex_wake(pending_, 1);
  }
  if (hooks.stop) hooks.stop();
}

void ThreadPool::take_chunks(int worker) {
  for (;;) {
    const int64_t chunk = next_chunk_.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= job_.chunks) return;
    (*job_.body)(chunk, worker);
  }
}

void ThreadPool::run(int64_t chunks, FunctionRef<void(int64_t, int)> body) {
  if (threads_ == 1 || chunks <= 1) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk, 0);
    return;
  }
  job_ = {&body, chunks};
  next_chunk_.store(0, std::memory_order_relaxed);
  pending_.store(static_cast<uint32_t>(threads_ - 1), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  futex_wake(epoch_, threads_ - 1);
  take_chunks(0);
  for (uint32_t left = pending_.load(std::memory_order_acquire); left != 0;) {
    left = wait_for_change(pending_, left);
  }
}

void ThreadPool::run_range(int64_t items, int64_t grain,
                           FunctionRef<void(int64_t, int64_t, int)> body) {
  const int64_t step = grain < 1 ? 1 : grain;
  run((items + step - 1) / step, [&](int64_t chunk, int worker) {
    const int64_t first = chunk * step;
    body(first, first + step < items ? first + step : items, worker);
  });
}

}  // namespace plait
