// The training loop.
#pragma once

#include "bindings/cli/metrics_lines.h"
#include "bindings/cli/progress.h"
#include "bindings/cli/saves.h"

namespace plait::cli {

struct RunPlan {
  int64_t steps = 0;           ///< last step, counted from the beginning of the run
  int64_t evaluate_every = 0;  ///< 0: at the last step alone
  bool has_evaluation = false;
};

/// What a run tells of itself, and keeps.
struct RunOutputs {
  MetricsLines* lines = nullptr;
  RunProgress* progress = nullptr;
  RunSaves* saves = nullptr;  ///< null: the run saves nothing
};

/// Steps the engine, which draws its own batches, up to plan.steps, and evaluates and saves where
/// the plan says. True when the run is complete, false when a stop was asked for.
bool run_steps(Host& host, const Context& context, const Engine& engine, const RunPlan& plan,
               const RunOutputs& outputs);

/// Steps that the state of the engine has behind it.
int64_t steps_so_far(const Engine& engine);

/// Evaluates the attached data; false when a stop was asked for, and then *metrics is not valid.
bool evaluate(const Engine& engine, plait_metrics* metrics);

}  // namespace plait::cli
