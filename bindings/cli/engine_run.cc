#include "bindings/cli/engine_run.h"

namespace plait::cli {

int64_t steps_so_far(const Engine& engine) {
  double steps = 0;
  call([&](plait_error** err) { return plait_engine_counter(engine.get(), "steps", &steps, err); });
  return static_cast<int64_t>(steps);
}

bool evaluate(const Engine& engine, plait_metrics* metrics) {
  *metrics = sized<plait_metrics>();
  return call([&](plait_error** err) {
           return plait_engine_evaluate(engine.get(), nullptr, -1, metrics, err);
         }) == PLAIT_OK;
}

bool run_steps(Host& host, const Context& context, const Engine& engine, const RunPlan& plan,
               const RunOutputs& outputs) {
  if (host.stop.is_requested()) return false;
  const Stopping stopping(&host.stop, engine.get());
  for (int64_t step = steps_so_far(engine); step < plan.steps;) {
    auto metrics = sized<plait_metrics>();
    const int32_t code = call([&](plait_error** err) {
      return plait_engine_step(engine.get(), nullptr, -1, &metrics, err);
    });
    step = metrics.step;
    outputs.lines->write(step_line(metrics));
    outputs.progress->step(metrics);
    drain_logs(host, context);
    if (outputs.saves != nullptr) outputs.saves->after_step(step);
    if (code == PLAIT_STOPPED) return false;
    const bool is_due =
        step == plan.steps || (plan.evaluate_every > 0 && step % plan.evaluate_every == 0);
    if (!plan.has_evaluation || !is_due) continue;
    if (!evaluate(engine, &metrics)) return false;
    outputs.lines->write(evaluation_line(step, metrics));
    outputs.progress->evaluation(step, metrics);
  }
  return true;
}

}  // namespace plait::cli
