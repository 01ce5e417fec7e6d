// The context: the host's callbacks, the log, and the Env. Everything else holds one.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "capi/src/handle.h"
#include "capi/src/thread.h"
#include "kernels/base/env.h"
#include "kernels/base/log.h"
#include "plait/plait.h"

namespace plait {

/// What the thread that delivers log records shares with its context, and outlives it with where a
/// callback does not return.
class LogDelivery {
 public:
  LogDelivery(const plait_host& host, Clock& clock);
  Log& log() { return log_; }
  /// Delivers until `stop`, then what is left.
  void run();
  void stop();

 private:
  void deliver(const LogRecord& record) const;

  plait_host host_;
  Log log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_records_ = false;
  bool is_stopping_ = false;
};

}  // namespace plait

struct plait_context final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kContext;
  /// `host` is a copy, all zero where the host gave none. Starts the delivery of records where a
  /// log callback is set.
  explicit plait_context(const plait_host& host);
  ~plait_context();

  plait::Log& log() { return delivery->log(); }

  plait::Env& env;
  const plait_host host;
  std::shared_ptr<plait::LogDelivery> delivery;
  plait::LibraryThread thread;
};
