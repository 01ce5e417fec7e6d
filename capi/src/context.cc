#include "capi/src/context.h"

#include <cxxabi.h>

#include <chrono>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"

namespace plait {
namespace {

constexpr int64_t kDeliverLastMs = 5000;

void check_version(int32_t wanted) {
  const int32_t major = wanted / 1000000, minor = wanted / 1000 % 1000;
  const bool is_served =
      wanted >= 0 && major == PLAIT_VERSION_MAJOR &&
      (PLAIT_VERSION_MAJOR == 0 ? minor == PLAIT_VERSION_MINOR : minor <= PLAIT_VERSION_MINOR);
  if (is_served) return;
  const auto text = [](int32_t a, int32_t b) {
    return std::to_string(a) + "." + std::to_string(b);
  };
  throw Error("version_mismatch", "this library does not serve the version of the header")
      .with("header", text(major, minor))
      .with("library", text(PLAIT_VERSION_MAJOR, PLAIT_VERSION_MINOR))
      .with("api_version", wanted)
      .subsystem("capi");
}

}  // namespace

LogDelivery::LogDelivery(const plait_host& host, Clock& clock) : host_(host), log_(clock) {
  if (host_.log == nullptr) return;
  log_.set_wake([this] {
    const std::lock_guard lock(mutex_);
    has_records_ = true;
    changed_.notify_one();
  });
}

void LogDelivery::run() {
  for (bool is_last = false; !is_last;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::seconds(1),
                        [&] { return has_records_ || is_stopping_; });
      has_records_ = false;
      is_last = is_stopping_;
    }
    LogRecord record;
    while (log_.pop(&record)) deliver(record);
  }
}

void LogDelivery::stop() {
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
  changed_.notify_one();
}

void LogDelivery::deliver(const LogRecord& record) const {
  plait_log_record view{};
  view.struct_size = sizeof view;
  view.valid = PLAIT_VALID_ALL;
  view.time_ns = record.time_ns;
  view.level = static_cast<int64_t>(record.level);
  view.rank = record.rank;
  view.subsystem = record.subsystem.c_str();
  view.message = record.message.c_str();
  view.message_bytes = static_cast<int64_t>(record.message.size());
  const InCallback mark;
  try {
    host_.log(host_.user, &view);
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    // Nobody is left to be told: the record counts as delivered.
  }
}

}  // namespace plait

plait_context::plait_context(const plait_host& host)
    : Handle(kKind),
      env(plait::posix_env()),
      host(host),
      delivery(std::make_shared<plait::LogDelivery>(host, env.clock)),
      thread(env.clock) {
  if (host.log == nullptr) return;
  thread.start("plait-log", host, [delivery = delivery] { delivery->run(); });
}

plait_context::~plait_context() {
  delivery->stop();
  thread.finish(plait::kDeliverLastMs);
}

int32_t plait_context_create(int32_t api_version, const plait_host* host, plait_context** context,
                             plait_error** err) {
  const plait::HandleOut<plait_context> out(context, "context");
  return plait::guard(err, [&] {
    out.check();
    plait::check_version(api_version);
    plait_host copy{};
    if (host != nullptr) copy = plait::read_struct(host, "plait_host");
    if (copy.reserved != nullptr) {
      throw plait::Error("argument", "a reserved field must be null")
          .with("parameter", "host.reserved")
          .subsystem("capi");
    }
    plait::claim_process();
    out.set(new plait_context(copy));
  });
}

int32_t plait_context_set_log_level(plait_context* context, int32_t level, plait_error** err) {
  return plait::guard(err, [&] {
    const plait::Held<plait_context> held(context, "context");
    plait::check_range(level, PLAIT_LOG_ERROR, PLAIT_LOG_TRACE, "level");
    held->log().set_level(static_cast<plait::LogLevel>(level));
  });
}

int32_t plait_context_log_drain(plait_context* context, int64_t max_records, plait_bytes** lines,
                                plait_error** err) {
  const plait::BytesOut out(lines, "lines");
  return plait::guard(err, [&] {
    out.check();
    const plait::Held<plait_context> held(context, "context");
    plait::check_range(max_records, 0, INT64_MAX, "max_records");
    out.set(held->host.log == nullptr ? held->log().drain(max_records) : std::string());
  });
}

void plait_context_free(plait_context* context) {
  plait::guard_void([&] { plait::free_handle(context); });
}
