// What an engine watches beside its steps: copies that differ, ranks that are slow.
#include <cstdio>

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

void LocalEngine::note_paces(const Update& update) {
  std::vector<Straggler> news;
  {
    const std::lock_guard lock(mutex_);
    for (size_t local = 0; local < compute_seconds_.size(); ++local) {
      const Rank& rank = ranks_.rank(static_cast<int64_t>(local));
      compute_seconds_[local] = static_cast<double>(rank.busy_ns()) * 1e-9;
    }
    if (update.has_paces) news = watch_.judge(ranks_.rank(0).paces());
  }
  if (options_.log == nullptr) return;
  for (const Straggler& one : news) {
    const auto number = [](int64_t value) { return static_cast<long long>(value); };
    char text[256];
    std::snprintf(text, sizeof text,
                  "a rank is slower than its peers: rank=%lld tensor=%lld pipeline=%lld data=%lld "
                  "ratio=%.2f step_seconds=%.4g steps=%lld",
                  number(one.rank), number(one.at.tensor), number(one.at.pipeline),
                  number(one.at.data), one.ratio, one.seconds, number(PaceMeter::kWindow));
    options_.log->write(LogLevel::kWarning, static_cast<int32_t>(one.rank), "engine/trainer", text);
  }
}

}  // namespace plait
