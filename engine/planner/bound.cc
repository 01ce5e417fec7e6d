#include "engine/planner/bound.h"

#include <algorithm>

namespace plait {

/// A coordinate can't begin before its first micro-batch has passed the stages before it, runs all
/// its passes, and its last gradient has to pass those stages too. Where backward passes come in
/// two parts, gradients of weights need not be done by then. Sends hold it where they block. The
/// data axis, which may hide beside passes, is left out but for what follows the passes.
double bound_seconds(const Job& job, const Estimate& estimate) {
  const LayoutConfig& layout = estimate.layout;
  const int64_t p = layout.pipeline;
  const auto m = static_cast<double>(micro_batches(job, layout));
  const bool is_split = layout.schedule == ScheduleChoice::kZeroBubble;
  const bool is_blocking = !job.profile.has_lanes;
  double longest = 0, before = 0, after = 0;  // of the stages before, forward and backward
  for (int64_t coordinate = 0; coordinate < p; ++coordinate) {
    double work = 0, weights = 0;
    for (int64_t chunk = 0; chunk < layout.interleave; ++chunk) {
      const StageTimes& stage = estimate.stages[static_cast<size_t>(chunk * p + coordinate)];
      work += stage.price.forward + stage.price.backward;
      if (is_blocking) work += stage.hops.forward + stage.hops.backward;
      if (is_split) weights += stage.price.backward_weight;
    }
    longest = std::max({longest, before + m * work, before + m * (work - weights) + after});
    const auto own = static_cast<size_t>(coordinate);
    const StageTimes& stage = estimate.stages[own];
    before += stage.price.forward + stage.hops.forward;
    after += is_split ? stage.price.backward_input : stage.price.backward;
    // The hop of a gradient into this stage; one that blocks is among the sender's work.
    if (!is_blocking && coordinate + 1 < p) after += estimate.stages[own + 1].hops.backward;
  }
  return longest + estimate.step.whole();
}

}  // namespace plait
