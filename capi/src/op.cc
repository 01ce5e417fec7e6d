#include "capi/src/op.h"

#include <utility>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"

namespace plait {

static_assert(static_cast<int32_t>(AsyncOperation::State::kRunning) == PLAIT_OP_RUNNING &&
              static_cast<int32_t>(AsyncOperation::State::kDone) == PLAIT_OP_DONE &&
              static_cast<int32_t>(AsyncOperation::State::kFailed) == PLAIT_OP_FAILED &&
              static_cast<int32_t>(AsyncOperation::State::kCancelled) == PLAIT_OP_CANCELLED);

std::unique_ptr<plait_op> start_op(const Ref<plait_context>& context, const char* name,
                                   AsyncOperation::Body body) {
  auto op =
      std::make_unique<plait_op>(context, std::make_shared<AsyncOperation>(context->env.clock));
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
    const plait::AsyncOperation::Progress now =
        plait::Held<plait_op>(op, "op")->operation->progress();
    plait_progress value{};
    value.valid = PLAIT_VALID_ALL;
    value.done_bytes = now.done_bytes;
    value.total_bytes = now.total_bytes;
    value.state = static_cast<int32_t>(now.state);
    out.write(value);
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
