#include "bindings/cli/plan_check.h"

#include <algorithm>
#include <cmath>

#include "bindings/cli/plan_calibrate.h"
#include "bindings/cli/plan_candidates.h"
#include "bindings/cli/plan_table.h"
#include "bindings/cli/run_metrics.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

struct CheckedPart {
  const char* name;
  double predicted, measured;

  /// Positive where the prediction is too fast.
  double error() const { return predicted > 0 ? measured / predicted - 1 : 0; }
  /// Sums of parts leave something of the size of a rounding: nothing.
  void drop_rounding(double step) {
    constexpr double kNothing = 1e-9;
    if (std::abs(predicted) < kNothing * step) predicted = 0;
  }
};

std::vector<CheckedPart> checked_parts(const MeasuredStep& predicted,
                                       const MeasuredStep& measured) {
  const auto other = [](const MeasuredStep& step) {
    return std::max(step.step - step.forward - step.backward - step.optimizer - step.bubble, 0.0);
  };
  std::vector<CheckedPart> parts = {
      {"forward", predicted.forward, measured.forward},
      {"backward", predicted.backward, measured.backward},
      {"optimizer", predicted.optimizer, measured.optimizer},
      {"bubble", predicted.bubble, measured.bubble},
      {"other", other(predicted), other(measured)},
      {"communication", predicted.communication, measured.communication},
      {"step", predicted.step, measured.step}};
  for (CheckedPart& part : parts) part.drop_rounding(predicted.step);
  return parts;
}

std::string check_json(const RunMetrics& run, const PlanJson& plan,
                       const std::vector<CheckedPart>& parts, double band, bool is_right) {
  PlanJson rows = PlanJson::array();
  for (const CheckedPart& part : parts) {
    PlanJson row = {
        {"part", part.name}, {"predicted", part.predicted}, {"measured", part.measured}};
    row["error"] = part.predicted > 0 ? PlanJson(part.error()) : PlanJson();
    rows.push_back(row);
  }
  return PlanJson{{"check",
                   {{"path", run.path},
                    {"world", run.world},
                    {"layout_text", word_at(plan, "layout_text")},
                    {"steps", run.measured.steps},
                    {"band", band},
                    {"is_within_band", is_right},
                    {"parts", rows}}}}
      .dump();
}

std::string check_text(const RunMetrics& run, const PlanJson& plan,
                       const std::vector<CheckedPart>& parts, double band, bool is_right) {
  TextTable table({{"part", TextTable::Align::kLeft},
                   {"predicted"},
                   {"measured"},
                   {"error %"},
                   {"of the step %"}});
  const double step = parts.back().measured;
  for (const CheckedPart& part : parts) {
    const std::string error = part.predicted > 0 ? fixed(100 * part.error(), 1) : "";
    const std::string share = fixed(100 * (part.measured - part.predicted) / step, 1);
    table.add({part.name, step_time(part.predicted), step_time(part.measured), error, share});
  }
  return word_at(plan, "layout_text") + " on " + std::to_string(run.world) +
         (run.world == 1 ? " rank" : " ranks") + ", median of " +
         std::to_string(run.measured.steps) + " steps (" + run.path + ")\n" + table.text("  ") +
         "\nThe step is " + (is_right ? "within" : "outside") + " the band of ± " +
         fixed(100 * band, 0) +
         " %. An error is measured/predicted - 1, positive where the prediction is too fast; "
         "forward "
         "and backward hold their collectives, the optimizer the data axis, the bubble transfers; "
         "communication is what of them are waits.";
}

int check(Host& host, const Context& context, const Config& config) {
  const RunMetrics run = read_run_metrics(context, config, host.options.check_path);
  const Planned planned = make_planned(context, run.config, run.world);
  const PlanJson& plan = planned.candidates[0];
  if (number_at(plan, "step_seconds") <= 0) {
    host.print_json(planned.reports[0]);
    host.print_human(reasons_text(plan, {}, 0));
    return kExitFailed;
  }
  const auto parts = checked_parts(predicted_step(planned.reports[0]), run.measured);
  const double band = number_at(plan["band"], "relative");
  const bool is_right = std::abs(parts.back().error()) <= band;
  host.print_json(check_json(run, plan, parts, band, is_right));
  host.print_human(check_text(run, plan, parts, band, is_right));
  drain_logs(host, context);
  return is_right ? kExitDone : kExitFailed;
}

}  // namespace

int run_plan_check(Host& host, const Context& context, const Config& config) {
  const bool calibrates = !host.options.calibrate_paths.empty();
  return calibrates ? run_plan_calibrate(host, context, config) : check(host, context, config);
}

}  // namespace plait::cli
