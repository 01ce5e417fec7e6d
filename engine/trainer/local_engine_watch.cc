// What an engine watches beside its steps: copies that differ.
#include "engine/trainer/local_engine.h"

namespace plait {

/// Number of the coming step when it compares replicas, else 0.
int64_t LocalEngine::compared_step() const {
  const int64_t every = settings_.train.replica_check_every, step = totals_.step + 1;
  return every > 0 && step % every == 0 ? step : 0;
}

void LocalEngine::note_replicas(const Update& update) {
  if (!update.is_compared) return;
  {
    const std::lock_guard lock(mutex_);
    ++totals_.replica_checks;
    totals_.divergences += update.divergence ? 1 : 0;
  }
  if (!update.divergence || options_.log == nullptr) return;
  options_.log->write(LogLevel::kWarning, update.divergence->rank(), "engine/trainer",
                      update.divergence->message());
}

}  // namespace plait
