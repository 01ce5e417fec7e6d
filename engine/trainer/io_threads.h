// Threads that read and write files for a while: made for one task, joined at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/base/function_ref.h"
#include "kernels/device/thread_pool.h"

namespace plait {

class IoThreads {
 public:
  /// At most `most` at a time, at least one.
  IoThreads(int64_t most, const ThreadHooks& hooks) : most_(most), hooks_(hooks) {}

  /// Calls work(i) for i in [0, count), begun in this order, and returns when all that were begun
  /// have ended. After a failure none is begun; of several the one of the lowest i is thrown, the
  /// same however the threads run. With `look`, which the calling thread calls every 20 ms
  /// meanwhile, no work is done on that thread; without, it does all where one thread is enough.
  /// `look` throws nothing.
  void run(size_t count, FunctionRef<void(size_t)> work,
           std::optional<FunctionRef<void()>> look = std::nullopt) const;

 private:
  struct Task;
  void work_through(Task* task) const;

  int64_t most_;
  ThreadHooks hooks_;
};

}  // namespace plait
