// Threads that the ABI layer owns: one that delivers log records, one for each background
// operation. They block all signals, carry a name, run the host's hooks and start with default
// floating-point modes.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/base/env.h"
#include "plait/plait.h"

namespace plait {

/// Runs the host's hook, where there is one, marked as a callback. What the hook throws is dropped.
void call_thread_start(const plait_host& host, const char* name);
void call_thread_stop(const plait_host& host);

class LibraryThread {
 public:
  explicit LibraryThread(Clock& clock) : clock_(clock) {}
  ~LibraryThread() { finish(0); }
  LibraryThread(const LibraryThread&) = delete;
  LibraryThread& operator=(const LibraryThread&) = delete;

  /// Starts once. `name` has at most 15 characters. `body` must not throw. Throws `no_memory`
  /// when the system has no thread to give.
  void start(const char* name, const plait_host& host, std::function<void()> body);

  /// Waits up to `timeout_ms` for the end; a thread that runs on, or that calls this itself, is let
  /// go. True when it has ended.
  bool finish(int64_t timeout_ms);

 private:
  struct State;
  static void* run(void* argument);

  Clock& clock_;
  std::shared_ptr<State> state_;
  pthread_t thread_{};
};

}  // namespace plait
