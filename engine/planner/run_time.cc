#include "engine/planner/run_time.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/config/checks.h"

namespace plait {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kCheckpointBytes = 14;  // a parameter: weight, master and two moments
constexpr double kCopyPasses = 2;        // a snapshot reads and writes its bytes once

/// Of a save: every rank copies its share; one that is still being written when the next one is due
/// holds that up.
double save_stall(const Job& job, double checkpoint_bytes, double seconds_between) {
  const Hardware& hardware = job.hardware;
  const double share = checkpoint_bytes / static_cast<double>(job.world);
  double stall =
      kCopyPasses * share / (hardware.memory_bytes_per_second * hardware.stream_efficiency);
  if (const auto rate = hardware.failures.save_bytes_per_second) {
    stall += std::max(checkpoint_bytes / *rate - seconds_between, 0.0);
  }
  return stall;
}

/// The key whose number does most to make a failure as dear as it is.
const char* dearest_key(const Job& job, double load, double lost) {
  const Failures& failures = job.hardware.failures;
  const std::pair<double, const char*> parts[] = {
      {failures.detect_seconds, "hardware.failures.detect_seconds"},
      {failures.restart_seconds, "hardware.failures.restart_seconds"},
      {load, "hardware.failures.load_bytes_per_second"},
      {lost, "run.save_every"}};
  return std::max_element(std::begin(parts), std::end(parts))->second;
}

}  // namespace

RunTime run_time(const Job& job, double step_seconds, double evaluation_seconds) {
  const Failures& failures = job.hardware.failures;
  RunTime run;
  constexpr double kMostSteps = 9e18;
  run.steps = static_cast<int64_t>(
      std::min(std::ceil(static_cast<double>(job.tokens) / job.step_tokens()), kMostSteps));
  const auto steps = static_cast<double>(run.steps);
  run.checkpoint_bytes = kCheckpointBytes * static_cast<double>(count_parameters(job.model));

  // Without saves a failure costs the run so far: half of it on the average.
  const bool has_saves = job.save_every > 0;
  const double between = (has_saves ? static_cast<double>(job.save_every) : steps) * step_seconds;
  run.save_seconds = save_stall(job, run.checkpoint_bytes, between);
  run.useful_seconds = steps * step_seconds;
  if (has_saves) {
    run.useful_seconds += static_cast<double>(run.steps / job.save_every) * run.save_seconds;
  }
  if (job.evaluate_every > 0) {
    run.useful_seconds += static_cast<double>(run.steps / job.evaluate_every) * evaluation_seconds;
  }

  const double rate = static_cast<double>(job.world) * failures.per_device_hour / kSecondsPerHour;
  const double load = has_saves && failures.load_bytes_per_second
                          ? run.checkpoint_bytes / *failures.load_bytes_per_second
                          : 0;
  const double lost = (between + (has_saves ? run.save_seconds : 0)) / 2;
  run.failure_seconds = failures.detect_seconds + failures.restart_seconds + load + lost;
  const double wasted = rate * run.failure_seconds;
  if (rate > 0) run.best_save_every = std::sqrt(2 * run.save_seconds / rate) / step_seconds;
  if (wasted >= 1) {
    run.does_finish = false;
    run.number_to_change = dearest_key(job, load, lost);
    return run;
  }
  run.wall_seconds = run.useful_seconds / (1 - wasted);
  run.goodput = 1 - wasted;
  run.failures = rate * run.wall_seconds;
  run.device_hours = static_cast<double>(job.world) * run.wall_seconds / kSecondsPerHour;
  if (const auto price = job.hardware.price_per_device_hour) run.cost = *price * run.device_hours;
  return run;
}

double run_epochs(int64_t tokens, int64_t data_tokens, int64_t sequence_length) {
  const int64_t samples = (data_tokens - 1) / sequence_length;
  if (samples < 1) return 0;
  return static_cast<double>(tokens) / static_cast<double>(samples * sequence_length);
}

}  // namespace plait
