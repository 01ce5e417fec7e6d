// SIGINT and SIGTERM: the first asks for an orderly stop, the second aborts.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "plait/plait.h"

namespace plait::cli {

/// Made once, before any other thread: it blocks both signals in the process and takes them on a
/// thread of its own, where every call of the library is legal.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Signals so far.
  int count() const { return count_.load(); }
  bool is_requested() const { return count() > 0; }

  /// What a signal stops from now on; null: nothing. A stop that was asked for earlier is handed on
  /// at once.
  void set_engine(plait_engine* engine);
  void set_operation(plait_op* operation);
  void set_group(plait_group* group);

 private:
  void run();
  void stop();
  void abort();

  std::atomic<int> count_{0};
  std::atomic<bool> is_ending_{false};
  std::mutex mutex_;
  plait_engine* engine_ = nullptr;
  plait_op* operation_ = nullptr;
  plait_group* group_ = nullptr;
  std::thread thread_;
};

/// While it lives, signals stop the engine.
class Stopping {
 public:
  Stopping(StopSignals* stop, plait_engine* engine) : stop_(stop) { stop_->set_engine(engine); }
  ~Stopping() { stop_->set_engine(nullptr); }
  Stopping(const Stopping&) = delete;
  Stopping& operator=(const Stopping&) = delete;

 private:
  StopSignals* stop_;
};

}  // namespace plait::cli
