#include "engine/trainer/load_rounds.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace plait {
namespace {

constexpr std::chrono::milliseconds kLookAtLoad{20};

}  // namespace

LoadRounds::LoadRounds(RankSet& ranks, const EngineOptions& options, const char* name,
                       int64_t limit_ms)
    : ranks_(ranks),
      options_(options),
      name_(name),
      limit_ms_(limit_ms),
      deadline_ns_(options.env->clock.now_ns() + limit_ms * 1'000'000) {}

std::vector<Answer> LoadRounds::run(const Work& work) {
  const Answer own = answer(work);
  if (ranks_.is_alone()) return {own};
  try {
    return tell(own);
  } catch (const Error& error) {
    if (!is_touched_) throw;
    ranks_.abort();
    throw Error(error).disposition(Disposition::kEngineLost);
  }
}

/// What a work ends with, in time or told to stop; one that cannot begin fails too.
Answer LoadRounds::answer(const Work& work) {
  try {
    return watch(work);
  } catch (...) {
    return {as_error(std::current_exception()), ""};
  }
}

Answer LoadRounds::watch(const Work& work) {
  std::atomic<bool> is_cancelled{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  Answer own;
  std::thread thread = start_library_thread([&] {
    enter_library_thread("plait-load", false);
    if (options_.hooks.start) options_.hooks.start("plait-load");
    Answer found;
    try {
      found.text = work(is_cancelled);
    } catch (...) {
      found.error = as_error(std::current_exception());
    }
    if (options_.hooks.stop) options_.hooks.stop();
    const std::lock_guard lock(mutex);
    own = std::move(found);
    is_done = true;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    while (!is_done) {
      changed.wait_for(lock, kLookAtLoad);
      const bool is_late = options_.env->clock.now_ns() >= deadline_ns_;
      const bool is_lost = ranks_.state() == EngineState::kLost;
      if (is_late || is_lost || must_stop()) is_cancelled.store(true);
    }
  }
  thread.join();
  const bool is_lost = ranks_.state() == EngineState::kLost;
  const bool has_stopped = own.error && own.error->word() == "cancelled";
  const bool is_too_late = !own.error && is_cancelled.load() && !is_committed_;
  if (has_stopped || is_too_late || is_lost || must_stop()) own.error = stopped();
  return own;
}

/// Why a work was told to stop.
Error LoadRounds::stopped() const {
  if (ranks_.state() == EngineState::kLost) {
    return Error("aborted", "the engine was aborted").subsystem("engine/trainer");
  }
  if (must_stop()) return Error("cancelled", "a stop was requested").subsystem("engine/trainer");
  return Error("deadline", "the load did not end within its limit")
      .with("phase", name_)
      .with("limit_ms", limit_ms_)
      .subsystem("engine/trainer");
}

/// Once all have come, somebody else's work may end at the limit too: there is time left to say so.
std::vector<Answer> LoadRounds::tell(const Answer& own) {
  const int64_t left_ms = (deadline_ns_ - options_.env->clock.now_ns()) / 1'000'000;
  const int64_t least_ms = has_met_ || own.error ? ranks_.world().options().control_ms : 1;
  std::vector<Answer> answers = tell_all(ranks_.world(), name_, own, std::max(left_ms, least_ms));
  has_met_ = true;
  return answers;
}

}  // namespace plait
