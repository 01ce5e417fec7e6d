#include "bindings/cli/run_metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "bindings/cli/session.h"

namespace plait::cli {
namespace {

using MetricsJson = nlohmann::ordered_json;

/// Steps that warm up, where there are twice as many.
constexpr size_t kFirstSteps = 3;

Failure bad_metrics(const std::string& sentence, const std::string& path) {
  return usage_failure(sentence).with("path", path);
}

struct MetricsFile {
  MetricsJson config;
  std::vector<MetricsJson> steps;
};

/// The configuration that stands last, and the timed steps behind it.
MetricsFile parse_metrics(const std::string& path) {
  MetricsFile file;
  std::istringstream lines(read_file(path));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const MetricsJson object = MetricsJson::parse(line, nullptr, false);
    if (!object.is_object()) {
      throw bad_metrics("a line of the file is no JSON object, as train --metrics writes them",
                        path)
          .with("line", number);
    }
    if (object.contains("config")) file = {object["config"], {}};
    const auto seconds = object.find("step_seconds");
    const bool is_timed = seconds != object.end() && seconds->is_number();
    if (is_timed && seconds->get<double>() > 0) file.steps.push_back(object);
  }
  if (!file.config.is_object()) {
    throw bad_metrics("the file has no line with a configuration: train --metrics writes one first",
                      path);
  }
  if (file.steps.size() < 2) {
    throw bad_metrics("the file has fewer than two timed steps", path)
        .with("steps", static_cast<int64_t>(file.steps.size()));
  }
  return file;
}

double median_of(const std::vector<MetricsJson>& steps, const char* field) {
  std::vector<double> values;
  for (size_t i = std::min(kFirstSteps, steps.size() / 2); i < steps.size(); ++i) {
    const auto found = steps[i].find(field);
    if (found != steps[i].end() && found->is_number()) values.push_back(found->get<double>());
  }
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

void load_keys(const Config& config, const MetricsJson& keys) {
  const std::string text = keys.dump();
  call([&](plait_error** err) {
    return plait_config_load(config.get(), text.data(), static_cast<int64_t>(text.size()), err);
  });
}

bool is_of_plan(const std::string& key) {
  return key.rfind("hardware.", 0) == 0 || key.rfind("planner.", 0) == 0;
}

/// `run`, but hardware and planner of `plan`.
Config merged_config(const Context& context, const Config& plan, const MetricsJson& run) {
  Config config = make<Config>([&](plait_config** out, plait_error** err) {
    return plait_config_create(context.get(), out, err);
  });
  MetricsJson keys = MetricsJson::object();
  for (const auto& [key, value] : run.items()) {
    if (!is_of_plan(key)) keys[key] = value;
  }
  const MetricsJson planned =
      MetricsJson::parse(make_text([&](plait_bytes** out, plait_error** err) {
        return plait_config_dump(plan.get(), 0, out, err);
      }));
  for (const auto& [key, value] : planned.items()) {
    if (is_of_plan(key)) keys[key] = value;
  }
  load_keys(config, keys);
  return config;
}

double part(const MetricsJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace

RunMetrics read_run_metrics(const Context& context, const Config& plan, const std::string& path) {
  const MetricsFile file = parse_metrics(path);
  RunMetrics run;
  run.path = path;
  try {
    run.config = merged_config(context, plan, file.config);
  } catch (Failure& failure) {
    failure.add("path", path);
    throw;
  }
  run.world = layout_ranks(run.config);
  run.measured.step = median_of(file.steps, "step_seconds");
  run.measured.forward = median_of(file.steps, "forward_seconds");
  run.measured.backward = median_of(file.steps, "backward_seconds");
  run.measured.optimizer = median_of(file.steps, "optimizer_seconds");
  run.measured.bubble = median_of(file.steps, "bubble_seconds");
  run.measured.communication = median_of(file.steps, "communication_seconds");
  const size_t count = file.steps.size();
  run.measured.steps = static_cast<int64_t>(count - std::min(kFirstSteps, count / 2));
  return run;
}

MeasuredStep predicted_step(const std::string& report) {
  const MetricsJson estimate = MetricsJson::parse(report);
  MeasuredStep step;
  step.step = part(estimate, "step_seconds");
  const MetricsJson& coordinates = estimate["coordinates"];
  const double count = static_cast<double>(coordinates.size());
  for (const MetricsJson& one : coordinates) {
    step.optimizer += (part(one, "optimizer") + part(one, "data_axis") + part(one, "tied")) / count;
    step.bubble += (part(one, "bubble") + part(one, "pipeline")) / count;
    step.communication += (part(one, "tensor") + part(one, "data_axis")) / count;
  }
  const double micro_batches = part(estimate["job"], "micro_batches");
  const bool is_split = estimate["layout"].value("layout.schedule", "") == "zero_bubble";
  for (const MetricsJson& stage : estimate["stages"]) {
    const double backward = is_split
                                ? part(stage, "backward_input") + part(stage, "backward_weight")
                                : part(stage, "backward");
    step.forward += part(stage, "forward") * micro_batches / count;
    step.backward += backward * micro_batches / count;
  }
  return step;
}

}  // namespace plait::cli
