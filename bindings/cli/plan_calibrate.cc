#include "bindings/cli/plan_calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "bindings/cli/calibration_fit.h"
#include "bindings/cli/plan_candidates.h"
#include "bindings/cli/run_metrics.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

/// A key of hardware.*, whose value or its inverse a step grows linearly with.
struct CalibratedKey {
  const char* key;
  bool is_inverse;  ///< a share of a rate, at most 1
  double reach;     ///< how far it may sensibly move: seconds, or a share of itself
};

/// The first ones are those that a probe tells least about.
constexpr CalibratedKey kCalibrated[] = {
    {"stream.efficiency", true, 0.5},
    {"overheads.collective_seconds", false, 1e-3},
    {"overheads.operation_seconds", false, 1e-4},
    {"matmul.efficiency", true, 0.5},
    {"overheads.step_seconds", false, 1e-2},
};
constexpr size_t kCalibratedKeys = std::size(kCalibrated);

std::string full_key(size_t i) { return std::string("hardware.") + kCalibrated[i].key; }

/// What predictions are linear in.
double place_of(size_t i, double value) { return kCalibrated[i].is_inverse ? 1 / value : value; }

class Calibration {
 public:
  Calibration(const Context& context, const Config& config, const std::vector<std::string>& paths)
      : context_(context), config_(config) {
    for (const std::string& path : paths) {
      runs_.push_back(read_run_metrics(context, config, path));
    }
    if (runs_.size() < 2) {
      throw usage_failure(
          "a calibration needs the metrics of at least two runs, better four that "
          "differ in tensor degree, micro-batch and number of micro-batches");
    }
    for (size_t i = 0; i < kCalibratedKeys; ++i) {
      const std::string text = get_text(config, full_key(i));
      char* end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      if (text.empty()) {
        throw usage_failure("a calibration starts from a description: give --hardware")
            .with("key", full_key(i));
      }
      places_.push_back(place_of(i, value));
    }
  }

  void fit() {
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds; ++round) {
      const std::vector<FitRow> rows = all_rows();
      if (round == 0) choose(rows);
      const std::vector<double> changes =
          fitted_changes(chosen_rows(rows), least_changes(), rows.size());
      for (size_t j = 0; j < chosen_.size(); ++j) places_[chosen_[j]] += changes[j];
    }
    const std::vector<FitRow> rows = chosen_rows(all_rows());
    for (const FitRow& row : rows) errors_.push_back(row.measured / row.predicted - 1);
    left_out_ = leave_one_out(rows, least_changes());
  }

  std::string fragment() const;
  std::string residuals() const;

 private:
  /// Of one run with the constants as they are in `places`.
  double predict(const RunMetrics& run, const std::vector<double>& places) const {
    for (size_t i = 0; i < kCalibratedKeys; ++i) {
      const std::string value = json_number(place_of(i, places[i])), key = full_key(i);
      call([&](plait_error** err) {
        return plait_config_set(run.config.get(), key.c_str(), value.c_str(), err);
      });
    }
    const Plan plan = make<Plan>([&](plait_plan** out, plait_error** err) {
      return plait_plan_create(context_.get(), run.config.get(), run.world, out, err);
    });
    auto info = sized<plait_plan_info>();
    call([&](plait_error** err) { return plait_plan_at(plan.get(), 0, &info, err); });
    if (info.is_feasible != 0 && info.step_seconds > 0) return info.step_seconds;
    throw usage_failure("the layout of a run can't be planned on this hardware")
        .with("path", run.path)
        .with("reason", info.reason);
  }
  std::vector<FitRow> all_rows() const {
    std::vector<FitRow> rows;
    for (const RunMetrics& run : runs_) {
      FitRow row{run.measured.step, predict(run, places_), {}};
      for (size_t i = 0; i < kCalibratedKeys; ++i) {
        const double step = kCalibrated[i].is_inverse ? 0.05 * places_[i] : 1e-5;
        std::vector<double> moved = places_;
        moved[i] += step;
        row.slopes.push_back((predict(run, moved) - row.predicted) / step);
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }
  void choose(const std::vector<FitRow>& rows) {
    std::vector<double> reach;
    for (size_t i = 0; i < kCalibratedKeys; ++i) {
      reach.push_back(kCalibrated[i].is_inverse ? kCalibrated[i].reach * places_[i]
                                                : kCalibrated[i].reach);
    }
    chosen_ = determined_constants(rows, reach);
  }
  std::vector<FitRow> chosen_rows(const std::vector<FitRow>& rows) const {
    std::vector<FitRow> chosen;
    for (const FitRow& row : rows) {
      FitRow& one = chosen.emplace_back(FitRow{row.measured, row.predicted, {}});
      for (const size_t i : chosen_) one.slopes.push_back(row.slopes[i]);
    }
    return chosen;
  }
  std::vector<double> least_changes() const {
    std::vector<double> least;
    for (const size_t i : chosen_) {
      least.push_back((kCalibrated[i].is_inverse ? 1.0 : 0.0) - places_[i]);
    }
    return least;
  }

  const Context& context_;
  const Config& config_;
  std::vector<RunMetrics> runs_;
  std::vector<double> places_;
  std::vector<size_t> chosen_;
  std::vector<double> errors_, left_out_;
};

/// Element ⌊share(n − 1)⌋ of the magnitudes.
double magnitude_at(std::vector<double> errors, double share) {
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  return errors[static_cast<size_t>(share * static_cast<double>(errors.size() - 1))];
}

std::string today() {
  const std::chrono::year_month_day date(
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  return text;
}

std::string library_version() {
  const int32_t version = plait_version();
  return std::to_string(version / 1'000'000) + "." + std::to_string(version / 1000 % 1000) + "." +
         std::to_string(version % 1000);
}

std::string dtype_word(const std::string& compute) {
  if (compute == "bf16") return "bfloat16";
  return compute == "fp16" ? "float16" : "float32";
}

std::string Calibration::fragment() const {
  PlanJson hardware = PlanJson::parse(make_text([&](plait_bytes** out, plait_error** err) {
    return plait_config_dump(config_.get(), 0, out, err);
  }));
  PlanJson kept = PlanJson::object();
  for (const auto& [key, value] : hardware.items()) {
    const bool is_old = key.rfind("hardware.calibration.", 0) == 0;
    if (key.rfind("hardware.", 0) == 0 && !is_old) kept[key] = value;
  }
  const std::string made = "fitted " + today() + " by version " + library_version() + " to " +
                           std::to_string(runs_.size()) + " measured runs";
  PlanJson fitted = PlanJson::array(), data = PlanJson::array();
  for (const size_t i : chosen_) {
    const std::string key = kCalibrated[i].key;
    kept[full_key(i)] = place_of(i, places_[i]);
    fitted.push_back(key);
    const std::string group = "hardware.provenance." + key.substr(0, key.find('.'));
    const std::string name = key.substr(key.find('.') + 1);
    const std::string before = kept.value(group, "");
    kept[group] = before + (before.empty() ? "" : "; ") + name + " " + made;
  }
  int32_t largest = 1;
  for (const RunMetrics& run : runs_) largest = std::max(largest, run.world);
  double squares = 0;
  for (const double error : errors_) squares += error * error;
  const std::string prefix = "hardware.calibration.";
  kept[prefix + "profile"] = get_text(config_, "planner.profile");
  kept[prefix + "dtype"] = dtype_word(get_text(runs_[0].config, "precision.compute"));
  kept[prefix + "data"] = "metrics of " + std::to_string(runs_.size()) + " runs";
  kept[prefix + "points"] = runs_.size();
  kept[prefix + "fitted"] = fitted;
  kept[prefix + "rms"] = std::sqrt(squares / static_cast<double>(errors_.size()));
  kept[prefix + "maximum"] = magnitude_at(errors_, 1);
  kept[prefix + "p90_leave_one_out"] = magnitude_at(left_out_, 0.9);
  kept[prefix + "maximum_leave_one_out"] = magnitude_at(left_out_, 1);
  kept[prefix + "largest_world"] = largest;
  kept[prefix + "date"] = today();
  kept[prefix + "version"] = library_version();
  return kept.dump();
}

std::string Calibration::residuals() const {
  std::string text = "fitted:";
  for (const size_t i : chosen_) {
    text += std::string(text.size() > 8 ? ", " : " ") + kCalibrated[i].key + " = " +
            rounded(place_of(i, places_[i]));
  }
  for (size_t r = 0; r < runs_.size(); ++r) {
    text += "\n  " + runs_[r].path + ": measured " + duration(runs_[r].measured.step) + ", error " +
            fixed(100 * errors_[r], 1) + " %, by the other runs alone " +
            fixed(100 * left_out_[r], 1) + " %";
  }
  return text;
}

}  // namespace

int run_plan_calibrate(Host& host, const Context& context, const Config& config) {
  Calibration calibration(context, config, host.options.calibrate_paths);
  calibration.fit();
  host.print(calibration.fragment());
  host.note(calibration.residuals());
  drain_logs(host, context);
  return kExitDone;
}

}  // namespace plait::cli
