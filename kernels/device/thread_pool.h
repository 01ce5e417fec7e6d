// The compute threads of a process. Work is a count of independent chunks handed out dynamically;
// which thread runs a chunk never changes its result.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/base/function_ref.h"

namespace plait {

/// Called in each library thread as it starts and ends (host hooks). May be empty.
struct ThreadHooks {
  std::function<void(const char* name)> start;
  std::function<void()> stop;
};

/// Puts the calling library thread in its fixed state: all signals blocked, its name set,
/// floating-point modes at their defaults (denormals kept unless `is_flushing`).
void enter_library_thread(const char* name, bool is_flushing);

/// A thread that starts with every signal blocked, so that no handler of the host runs in it.
/// Throws `no_memory` when the system has no room for one.
std::thread start_library_thread(std::function<void()> body);

class ThreadPool {
 public:
  /// `threads` ≥ 1 counts the caller of `run`: threads − 1 workers are started.
  ThreadPool(int threads, const ThreadHooks& hooks, bool is_flushing);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Calls body(chunk, worker) for each chunk in [0, chunks), worker in [0, threads). Returns when
  /// all are done. One caller at a time. `body` must not throw and must not call `run`.
  void run(int64_t chunks, FunctionRef<void(int64_t chunk, int worker)> body);

  /// As `run` over [0, items) in pieces of at most `grain` items: body(first, last, worker).
  void run_range(int64_t items, int64_t grain,
                 FunctionRef<void(int64_t first, int64_t last, int worker)> body);

 private:
  struct Job {
    const FunctionRef<void(int64_t, int)>* body = nullptr;
    int64_t chunks = 0;
  };
  void work(int worker, const ThreadHooks& hooks, bool is_flushing);
  void stop();
  void take_chunks(int worker);

  const int threads_;
  Job job_;
  alignas(64) std::atomic<int64_t> next_chunk_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};    // grows with each job; workers sleep on it
  alignas(64) std::atomic<uint32_t> pending_{0};  // workers that have not finished the job
  std::atomic<bool> is_stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace plait
