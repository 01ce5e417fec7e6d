// Work that outlives its call, on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "capi/src/context.h"
#include "capi/src/handle.h"
#include "capi/src/thread.h"
#include "plait/plait.h"

namespace plait {

/// Shared by the handle and the thread. Any thread may call any method but `run`.
class Operation {
 public:
  /// Does the work and returns the JSON report; throws on failure, `cancelled` when it saw the
  /// cancel flag in time.
  using Body = std::function<std::string(Operation& operation)>;

  explicit Operation(Clock& clock) : clock_(clock) {}

  /// On the operation's thread, once. Never throws.
  void run(const Body& body);

  void set_progress(int64_t done_bytes, int64_t total_bytes);
  const std::atomic<bool>& cancel_flag() const { return is_cancelled_; }
  void cancel() { is_cancelled_.store(true); }

  plait_progress progress() const;
  /// Waits for the end; false when `timeout_ms` (0: none, −1: no limit) is over before.
  bool wait(int64_t timeout_ms);
  /// Report of a success; rethrows what ended it otherwise; `busy` while it runs.
  std::string result() const;

 private:
  Clock& clock_;
  std::atomic<bool> is_cancelled_{false};
  std::atomic<int64_t> done_bytes_{0}, total_bytes_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int32_t state_ = PLAIT_OP_RUNNING;
  std::string report_;
  std::exception_ptr failure_;
};

}  // namespace plait

struct plait_op final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kOp;
  explicit plait_op(const plait::Ref<plait_context>& context)
      : Handle(kKind),
        context(context),
        operation(std::make_shared<plait::Operation>(context->env.clock)),
        thread(context->env.clock) {}
  /// An operation that has ended leaves no thread behind; one that runs is let go.
  ~plait_op() { thread.finish(operation->wait(0) ? 1000 : 0); }

  const plait::Ref<plait_context> context;
  const std::shared_ptr<plait::Operation> operation;
  plait::LibraryThread thread;
};

namespace plait {

/// Starts `body` on its own thread, which keeps the context alive. `name`: at most 15 characters.
std::unique_ptr<plait_op> start_op(const Ref<plait_context>& context, const char* name,
                                   Operation::Body body);

}  // namespace plait
