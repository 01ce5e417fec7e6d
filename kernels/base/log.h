// Log records. The library writes nothing to stdout or stderr: records go to a Log, which keeps the
// newest in a bounded ring that the host drains, or hands each to the host's handler.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "kernels/base/env.h"

namespace plait {

/// Numbers of the C ABI; a record passes when its level is at most the log's.
enum class LogLevel : int32_t { kError = 1, kWarning = 2, kInfo = 3, kDebug = 4, kTrace = 5 };

struct LogRecord {
  int64_t time_ns = 0;  ///< wall clock
  LogLevel level = LogLevel::kInfo;
  int32_t rank = -1;
  std::string subsystem;
  std::string message;
};

/// Any thread may write and drain.
class Log {
 public:
  explicit Log(Clock& clock) : clock_(clock) {}
  void set_level(LogLevel level);
  void write(LogLevel level, int32_t rank, std::string_view subsystem, std::string message);
  /// At most `max_records` records as JSON lines, oldest first; a `dropped` line counts losses.
  std::string drain(int64_t max_records);
  /// Takes the oldest record out; false when there is none.
  bool pop(LogRecord* record);
  /// Called, without a lock held, after each record (to wake the thread that delivers them).
  void set_wake(std::function<void()> wake);

 private:
  static constexpr size_t kCapacity = 4096;
  Clock& clock_;
  std::mutex mutex_;
  std::deque<LogRecord> ring_;
  std::function<void()> wake_;
  LogLevel level_ = LogLevel::kInfo;
  int64_t dropped_ = 0;
};

}  // namespace plait
