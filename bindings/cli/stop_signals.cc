#include "bindings/cli/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "bindings/cli/failure.h"

namespace plait::cli {
namespace {

// An aborted call returns within a second; whatever takes longer does not get to hold the process.
constexpr timespec kAbortGrace = {2, 0};

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { run(); });
}

StopSignals::~StopSignals() {
  is_ending_.store(true);
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void StopSignals::set_engine(plait_engine* engine) {
  const std::lock_guard lock(mutex_);
  engine_ = engine;
  if (engine_ != nullptr && is_requested()) plait_engine_request_stop(engine_);
}

void StopSignals::set_operation(plait_op* operation) {
  const std::lock_guard lock(mutex_);
  operation_ = operation;
  if (operation_ != nullptr && is_requested()) plait_op_cancel(operation_);
}

void StopSignals::set_group(plait_group* group) {
  const std::lock_guard lock(mutex_);
  group_ = group;
}

void StopSignals::run() {
  const sigset_t set = stop_set();
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) != 0 || is_ending_.load()) return;
    count_.fetch_add(1) == 0 ? stop() : abort();
    if (count() < 2) continue;
    if (sigtimedwait(&set, nullptr, &kAbortGrace) < 0 || !is_ending_.load()) _exit(kExitAborted);
    return;
  }
}

void StopSignals::stop() {
  const std::lock_guard lock(mutex_);
  if (engine_ != nullptr) plait_engine_request_stop(engine_);
  if (operation_ != nullptr) plait_op_cancel(operation_);
  if (group_ != nullptr) plait_group_abort(group_);
}

void StopSignals::abort() {
  const std::lock_guard lock(mutex_);
  if (engine_ == nullptr && operation_ == nullptr) _exit(kExitAborted);
  if (engine_ != nullptr) plait_engine_abort(engine_);
}

}  // namespace plait::cli
