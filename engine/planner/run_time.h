// A whole run: steps, days, device-hours, cost, and an allowance for failures.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/planner/job.h"

namespace plait {

struct RunTime {
  int64_t steps = 0;
  double useful_seconds = 0;  ///< steps, saves and evaluations
  double wall_seconds = 0;    ///< with failures
  double goodput = 0;         ///< useful over wall
  double device_hours = 0;
  std::optional<double> cost;
  double failures = 0;         ///< expected in the run
  double failure_seconds = 0;  ///< that one of them costs
  double checkpoint_bytes = 0;
  double save_seconds = 0;     ///< stall of a save
  double best_save_every = 0;  ///< steps
  bool does_finish = true;     ///< false: failures come faster than they are made good
};

/// Of job.tokens tokens, in steps of `step_seconds`, evaluations of `evaluation_seconds` each.
RunTime run_time(const Job& job, double step_seconds, double evaluation_seconds);

}  // namespace plait
