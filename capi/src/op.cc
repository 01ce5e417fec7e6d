#include "capi/src/op.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"

namespace plait {

void Operation::run(const Body& body) {
  std::string report;
  std::exception_ptr failure;
  int32_t state = PLAIT_OP_DONE;
  try {
    report = body(*this);
  } catch (const Error& error) {
    failure = std::current_exception();
    state = error.code() == Code::kCancelled ? PLAIT_OP_CANCELLED : PLAIT_OP_FAILED;
  } catch (...) {
    failure = std::current_exception();
    state = PLAIT_OP_FAILED;
  }
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
  failure_ = std::move(failure);
  state_ = state;
  changed_.notify_all();
}

void Operation::set_progress(int64_t done_bytes, int64_t total_bytes) {
  done_bytes_.store(done_bytes, std::memory_order_relaxed);
  total_bytes_.store(total_bytes, std::memory_order_relaxed);
}

plait_progress Operation::progress() const {
  plait_progress value{};
  value.valid = PLAIT_VALID_ALL;
  value.done_bytes = done_bytes_.load(std::memory_order_relaxed);
  value.total_bytes = total_bytes_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  value.state = state_;
  return value;
}

bool Operation::wait(int64_t timeout_ms) {
  constexpr int64_t kSliceNs = 1'000'000'000;
  const int64_t limit_ns =
      timeout_ms < 0 ? INT64_MAX : std::min(timeout_ms, int64_t{1} << 40) * 1'000'000;
  const int64_t begin = clock_.now_ns();
  std::unique_lock lock(mutex_);
  while (state_ == PLAIT_OP_RUNNING) {
    const int64_t left = limit_ns - (clock_.now_ns() - begin);
    if (left <= 0) return false;
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left, kSliceNs)));
  }
  return true;
}

std::string Operation::result() const {
  const std::lock_guard lock(mutex_);
  if (state_ == PLAIT_OP_RUNNING) {
    throw Error("busy", "the operation is still running").subsystem("capi");
  }
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  return report_;
}

std::unique_ptr<plait_op> start_op(const Ref<plait_context>& context, const char* name,
                                   Operation::Body body) {
  auto op = std::make_unique<plait_op>(context);
  op->thread.start(
      name, context->host,
      [operation = op->operation, context, body = std::move(body)] { operation->run(body); });
  return op;
}

}  // namespace plait

int32_t plait_op_wait(plait_op* op, int64_t timeout_ms, plait_error** err) {
  return plait::guard(err, [&] {
    const plait::Held<plait_op> held(op, "op");
    if (timeout_ms != 0) plait::check_timeout(timeout_ms);
    if (!held->operation->wait(timeout_ms)) {
      throw plait::Error("deadline", "the operation is still running")
          .with("timeout_ms", timeout_ms)
          .subsystem("capi");
    }
    held->operation->result();
  });
}

int32_t plait_op_progress(const plait_op* op, plait_progress* progress, plait_error** err) {
  plait::StructOut<plait_progress> out(progress, "plait_progress");
  return plait::guard(err, [&] {
    out.check();
    out.write(plait::Held<plait_op>(op, "op")->operation->progress());
  });
}

int32_t plait_op_result(const plait_op* op, plait_bytes** report, plait_error** err) {
  const plait::BytesOut out(report, "report");
  return plait::guard(err, [&] {
    out.check();
    out.set(plait::Held<plait_op>(op, "op")->operation->result());
  });
}

void plait_op_cancel(plait_op* op) {
  plait::guard_void([&] { plait::Held<plait_op>(op, "op")->operation->cancel(); });
}

void plait_op_free(plait_op* op) {
  plait::guard_void([&] { plait::free_handle(op); });
}
