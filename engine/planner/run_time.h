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
  bool does_finish = true;     ///< false: failures come faster than they are made good, and no
                               ///< time is given
  const char* number_to_change = "";  ///< the key that makes a failure dearest, where that is so
};

/// Of job.tokens tokens, in steps of `step_seconds`, evaluations of `evaluation_seconds` each.
RunTime run_time(const Job& job, double step_seconds, double evaluation_seconds);

/// How often `tokens` of training go through a file of `data_tokens`, of which an epoch is
/// ⌊(data_tokens − 1)/sequence_length⌋ samples; 0: the file holds no sample.
double run_epochs(int64_t tokens, int64_t data_tokens, int64_t sequence_length);

}  // namespace plait
