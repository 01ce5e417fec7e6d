// plait trace: a few steps as a Chrome trace, and what reports of operations say together.
#include <nlohmann/json.hpp>

#include "bindings/cli/commands.h"
#include "bindings/cli/engine_run.h"
#include "bindings/cli/operations_merge.h"
#include "bindings/cli/plan_table.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSteps = 3;

/// Steps before the traced ones: the first touches memory and packs weights.
constexpr int64_t kWarmUp = 1;

void set(const Config& config, const char* key, const std::string& value) {
  call([&](plait_error** err) { return plait_config_set(config.get(), key, value.c_str(), err); });
}

/// Takes what the configuration says of the trace out of it, so that warming up is not traced.
int64_t take_steps(const Config& config) {
  const int64_t steps = get_integer(config, "trace.steps");
  set(config, "trace.steps", "0");
  if (get_text(config, "trace.directory").empty()) set(config, "trace.directory", ".");
  return steps > 0 ? steps : kSteps;
}

void begin_trace(const Engine& engine, int64_t steps) {
  const std::string value = std::to_string(steps);
  call([&](plait_error** err) {
    return plait_engine_set(engine.get(), "trace.steps", value.c_str(), err);
  });
}

Json trace_report(const Engine& engine) {
  return Json::parse(make_text([&](plait_bytes** out, plait_error** err) {
    return plait_engine_report(engine.get(), "trace", out, err);
  }));
}

void throw_if_unwritten(const Json& report) {
  const Json& error = report["error"];
  if (!error.is_object()) return;
  const std::string word = error["word"], message = error["message"];
  throw Failure(error["code"].get<int32_t>(), word, message.substr(word.size() + 2));
}

void print_result(Host& host, const Json& report) {
  if (host.options.is_json) {
    host.print(Json{{"trace", report}}.dump());
    return;
  }
  for (const Json& file : report["files"]) host.print(file.get<std::string>());
  std::string line = "idle share " + rounded(report["idle_share"].get<double>(), 3);
  const Json& formula = report["formula_idle_share"];
  if (formula.is_number()) line += " (formula " + rounded(formula.get<double>(), 3) + ")";
  host.print(line);
  const int64_t left_out = report["left_out"];
  if (left_out > 0) {
    host.note("plait: the trace had no room for " + counted(left_out) + " events");
  }
}

int run_merge(Host& host) {
  std::vector<OperationsReport> reports;
  for (const std::string& path : host.options.merge_paths) {
    reports.push_back(read_operations(path, read_file(path)));
  }
  const MergedOperations merged = merge_operations(reports);
  host.print_json(merged_json(merged));
  host.print_human(merged_text(merged));
  return merged.difference ? kExitFailed : kExitDone;
}

/// The planner's timeline of one step, as trace-simulated.json in the directory of traces.
int run_simulation(Host& host, const Context& context, const Config& config) {
  const Planned planned =
      make_planned(context, config, host.options.place.world.value_or(layout_ranks(config)));
  const PlanJson& first = planned.candidates[0];
  if (!planned.has_feasible()) {
    host.print_json(planned.reports[0]);
    host.print_human("It can't be run: " + word_at(first, "layout_text") + "\n" +
                     reasons_text(first, PlanView(), 0));
    return kExitFailed;
  }
  const std::string timeline = make_text([&](plait_bytes** out, plait_error** err) {
    return plait_plan_report(planned.plan.get(), 0, "timeline", out, err);
  });
  const std::string directory = get_text(config, "trace.directory");
  const std::string path = (directory.empty() ? "." : directory) + "/trace-simulated.json";
  write_file(path, timeline);
  const double bubble = number_at(first, "bubble_share");
  host.print_json(Json{{"trace",
                        {{"files", {path}},
                         {"is_simulated", true},
                         {"layout", word_at(first, "layout_text")},
                         {"step_seconds", number_at(first, "step_seconds")},
                         {"idle_share", bubble},
                         {"formula_idle_share", number_at(first, "ideal_bubble_share")}}}}
                      .dump());
  host.print_human(path + "\nsimulated: " + word_at(first, "layout_text") + "\nidle share " +
                   rounded(bubble, 3) + " (formula " +
                   rounded(number_at(first, "ideal_bubble_share"), 3) + ")");
  if (!first["band"]["is_calibrated"].get<bool>()) {
    host.note("plait: nothing was measured here, so the seconds of this timeline mean little");
  }
  return kExitDone;
}

}  // namespace

int run_trace(Host& host) {
  if (!host.options.merge_paths.empty()) return run_merge(host);
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  if (host.options.is_simulate) return run_simulation(host, context, config);
  const int64_t steps = take_steps(config);
  call([&](plait_error** err) { return plait_config_check(config.get(), err); });
  const Place place = find_place(host, config);
  const Group group = make_group(context, config, place);
  const Dataset train = open_dataset(context, config, "train");
  MetricsLines lines(host, true);
  const Engine engine = make_engine(host, group, config);
  attach(engine, "train", train);
  // What cannot be traced is refused before anything runs.
  begin_trace(engine, steps);
  begin_trace(engine, 0);
  drain_logs(host, context);

  host.is_started = true;
  RunPlan plan;
  plan.steps = kWarmUp;
  RunProgress progress(host, kWarmUp + steps, 1);
  RunOutputs outputs;
  outputs.lines = &lines;
  outputs.progress = &progress;
  bool is_complete = run_steps(host, context, engine, plan, outputs);
  if (is_complete) {
    begin_trace(engine, steps);
    plan.steps += steps;
    is_complete = run_steps(host, context, engine, plan, outputs);
  }
  progress.end();
  // The last step is whole when a stop comes with it: its trace is there.
  const Json report = trace_report(engine);
  call([&](plait_error** err) { return plait_engine_close(engine.get(), -1, err); });
  drain_logs(host, context);
  if (report["state"] == "done") {
    throw_if_unwritten(report);
    print_result(host, report);
  }
  if (is_complete && !host.stop.is_requested()) return kExitDone;
  host.note("plait: stopped on request");
  return kExitStopped;
}

}  // namespace plait::cli
