#include "bindings/cli/operation.h"

#include <algorithm>

#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

constexpr int64_t kLookEveryMs = 200;

plait_progress progress_of(const Operation& operation) {
  auto progress = sized<plait_progress>();
  call([&](plait_error** err) { return plait_op_progress(operation.get(), &progress, err); });
  return progress;
}

/// While it lives, signals cancel the operation.
class Cancelling {
 public:
  Cancelling(StopSignals* stop, plait_op* operation) : stop_(stop) {
    stop_->set_operation(operation);
  }
  ~Cancelling() { stop_->set_operation(nullptr); }
  Cancelling(const Cancelling&) = delete;
  Cancelling& operator=(const Cancelling&) = delete;

 private:
  StopSignals* stop_;
};

}  // namespace

std::string bar(double share, int width) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  return "[" + std::string(static_cast<size_t>(filled), '#') +
         std::string(static_cast<size_t>(width - filled), '.') + "]";
}

std::string finish(Host& host, const Operation& operation, const std::string& label) {
  const Cancelling cancelling(&host.stop, operation.get());
  return wait_for_end(host, operation, label);
}

bool has_ended(const Operation& operation) {
  return progress_of(operation).state != PLAIT_OP_RUNNING;
}

std::string wait_for_end(Host& host, const Operation& operation, const std::string& label) {
  for (;;) {
    plait_error* error = nullptr;
    const int32_t code = plait_op_wait(operation.get(), kLookEveryMs, &error);
    if (code == PLAIT_OK) break;
    Failure failure(code, error);
    const plait_progress progress = progress_of(operation);
    if (code != PLAIT_DEADLINE_EXCEEDED || progress.state != PLAIT_OP_RUNNING) {
      host.draw_bar("");
      throw failure;
    }
    if (!host.has_bar() || progress.total_bytes <= 0) continue;
    const auto done = static_cast<double>(progress.done_bytes);
    const auto total = static_cast<double>(progress.total_bytes);
    host.draw_bar(label + " " + bar(done / total) + " " + byte_size(done) + " of " +
                  byte_size(total));
  }
  host.draw_bar("");
  return make_text([&](plait_bytes** out, plait_error** err) {
    return plait_op_result(operation.get(), out, err);
  });
}

}  // namespace plait::cli
