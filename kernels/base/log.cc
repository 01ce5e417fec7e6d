#include "kernels/base/log.h"

#include "kernels/base/json_text.h"

namespace plait {
namespace {

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kTrace:
      return "trace";
  }
  return "info";
}

}  // namespace

void Log::set_level(LogLevel level) {
  const std::lock_guard lock(mutex_);
  level_ = level;
}

void Log::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void Log::write(LogLevel level, int32_t rank, std::string_view subsystem, std::string message) {
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    if (level > level_) return;
    if (ring_.size() == kCapacity) {
      ring_.pop_front();
      ++dropped_;
    }
    ring_.push_back({clock_.wall_ns(), level, rank, std::string(subsystem), std::move(message)});
    wake = wake_;
  }
  if (wake) wake();
}

bool Log::pop(LogRecord* record) {
  const std::lock_guard lock(mutex_);
  if (ring_.empty()) return false;
  *record = std::move(ring_.front());
  ring_.pop_front();
  return true;
}

std::string Log::drain(int64_t max_records) {
  const std::lock_guard lock(mutex_);
  std::string lines;
  if (dropped_ > 0) {
    lines += JsonObject().field("dropped", dropped_).text() + "\n";
    dropped_ = 0;
  }
  for (int64_t i = 0; i < max_records && !ring_.empty(); ++i) {
    const LogRecord& record = ring_.front();
    lines += JsonObject()
                 .field("time", static_cast<double>(record.time_ns) * 1e-9)
                 .field("level", level_name(record.level))
                 .field("rank", record.rank)
                 .field("subsystem", record.subsystem)
                 .field("message", record.message)
                 .text() +
             "\n";
    ring_.pop_front();
  }
  return lines;
}

}  // namespace plait
