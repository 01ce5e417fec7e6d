// Saving the live engine.
#include <algorithm>
#include <memory>
#include <utility>

#include "engine/trainer/local_engine.h"
#include "kernels/base/error.h"

namespace plait {

std::shared_ptr<AsyncOperation> LocalEngine::save(const std::string& root, int64_t timeout_ms) {
  ranks_.check_usable();
  const int64_t most_ms = settings_.checkpoint.save_timeout_ms;
  const int64_t limit_ms = timeout_ms > 0 ? std::min(timeout_ms, most_ms) : most_ms;
  const auto describe_save = [&] {
    check_no_pending("save");
    if (root.empty()) throw Error("argument", "a save needs a root").with("root", root);
    return SaveRequest{root, describe(), settings_.checkpoint, fingerprint(config_),
                       is_last_applied_};
  };
  // Parts may run on after a deadline: what they use is theirs too.
  const auto job = std::make_shared<std::shared_ptr<SaveJob>>();
  const auto prepare = [&] { *job = saver_.open(describe_save, limit_ms); };
  RankSet::Call call;
  call.name = "checkpoint_save";
  call.prepare = prepare;
  call.prepares_together = true;
  call.timeout_ms = limit_ms;
  call.part = [this, job](int64_t local) {
    if (!(*job)->is_skipped) saver_.snapshot(**job, local);
  };
  bool is_staged = false;
  std::shared_ptr<AsyncOperation> operation;
  try {
    ranks_.run(call);
    is_staged = (*job)->staging != nullptr || (*job)->is_skipped;
    operation = saver_.start(*job);
  } catch (...) {
    if (*job != nullptr) saver_.drop(**job);
    throw;
  }
  // Live values are written from where they are; the save's own limit ends the wait.
  if (!is_staged) operation->wait(-1);
  return operation;
}

void LocalEngine::abort() {
  ranks_.abort();
  saver_.abandon(Error("aborted", "the engine was aborted before the save was durable")
                     .rank(static_cast<int32_t>(options_.world->options().first_rank))
                     .subsystem("engine/trainer"));
}

void LocalEngine::close(int64_t timeout_ms) {
  if (state() == EngineState::kRunning) ranks_.check_usable();
  if (state() != EngineState::kClosed) saver_.close(timeout_ms);
  ranks_.close(timeout_ms);
}

}  // namespace plait
