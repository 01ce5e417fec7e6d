// A file of `train --metrics`, read again: the run's configuration and what its steps took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/handles.h"

namespace plait::cli {

/// Medians over the steps after the first few, in seconds. Forward and backward hold their
/// collectives; `optimizer` holds the data axis, `bubble` all waits for boundary tensors.
struct MeasuredStep {
  double step = 0, forward = 0, backward = 0, optimizer = 0, bubble = 0;
  double communication = 0;  ///< of forward, backward and optimizer: waits for peers
  int64_t steps = 0;         ///< that the medians are of
};

struct RunMetrics {
  std::string path;
  Config config;  ///< the run's; keys hardware.* and planner.* are those of the plan
  int32_t world = 1;
  MeasuredStep measured;
};

/// The last run of a file. The plan's configuration gives hardware and planner. A usage failure
/// naming the file when its lines are no metrics, no configuration stands before the steps, or
/// fewer than two steps were timed.
RunMetrics read_run_metrics(const Context& context, const Config& plan, const std::string& path);

/// What plans say of the run's layout under the names above: of one report "estimate".
MeasuredStep predicted_step(const std::string& report);

}  // namespace plait::cli
