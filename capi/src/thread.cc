#include "capi/src/thread.h"

#include <cxxabi.h>
#include <fenv.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "capi/src/guard.h"
#include "kernels/base/error.h"

namespace plait {

struct LibraryThread::State {
  std::string name;
  plait_host host{};
  std::function<void()> body;
  std::mutex mutex;
  std::condition_variable changed;
  bool has_ended = false;
};

namespace {

template <class Callback>
void call_host(Callback&& callback) {
  const InCallback mark;
  try {
    callback();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    // A hook has no caller that could be told.
  }
}

}  // namespace

void call_thread_start(const plait_host& host, const char* name) {
  if (host.thread_start != nullptr) call_host([&] { host.thread_start(host.user, name); });
}

void call_thread_stop(const plait_host& host) {
  if (host.thread_stop != nullptr) call_host([&] { host.thread_stop(host.user); });
}

void* LibraryThread::run(void* argument) {
  const std::unique_ptr<std::shared_ptr<State>> owned(
      static_cast<std::shared_ptr<State>*>(argument));
  const std::shared_ptr<State> state = *owned;
  pthread_setname_np(pthread_self(), state->name.c_str());
  fesetenv(FE_DFL_ENV);
  call_thread_start(state->host, state->name.c_str());
  state->body();
  state->body = nullptr;  // what it holds goes before the end is announced
  call_thread_stop(state->host);
  const std::lock_guard lock(state->mutex);
  state->has_ended = true;
  state->changed.notify_all();
  return nullptr;
}

void LibraryThread::start(const char* name, const plait_host& host, std::function<void()> body) {
  check(state_ == nullptr, "a library thread is started once");
  auto state = std::make_shared<State>();
  state->name = name;
  state->host = host;
  state->body = std::move(body);
  auto argument = std::make_unique<std::shared_ptr<State>>(state);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failure = pthread_create(&thread_, nullptr, &LibraryThread::run, argument.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure != 0) {
    throw Error("no_memory", "a thread could not be started")
        .with("name", name)
        .with("errno", failure);
  }
  argument.release();
  state_ = std::move(state);
}

bool LibraryThread::finish(int64_t timeout_ms) {
  const std::shared_ptr<State> state = std::move(state_);
  state_ = nullptr;
  if (state == nullptr) return true;
  if (pthread_equal(thread_, pthread_self()) != 0) {
    pthread_detach(thread_);
    return false;
  }
  bool has_ended = false;
  {
    std::unique_lock lock(state->mutex);
    has_ended = state->changed.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                                        [&] { return state->has_ended; });
  }
  if (has_ended) {
    // Only the return of its function is left; the limit is a matter of principle.
    const int64_t until = clock_.wall_ns() + 1'000'000'000;
    const timespec limit{until / 1'000'000'000, until % 1'000'000'000};
    if (pthread_timedjoin_np(thread_, nullptr, &limit) == 0) return true;
  }
  pthread_detach(thread_);
  return has_ended;
}

}  // namespace plait
