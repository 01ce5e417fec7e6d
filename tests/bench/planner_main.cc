// Fits the planner's constants to ten published rates and prints what they say of all others.
// Called by tests/bench/planner.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <span>
#include <string>

#include "engine/planner/calibrate.h"
#include "engine/planner/estimate.h"
#include "kernels/base/error.h"
#include "tests/bench/planner_speed.h"
#include "tests/bench/planner_tables.h"
#include "tests/bench/planner_takeaways.h"

using namespace plait;
using namespace plait::bench;

namespace {

Hardware start_hardware() {
  Config config;
  config.set("hardware.name", "dgx-a100");
  return make_hardware(config);
}

double predicted_seconds(PublishedRow row, const Hardware& hardware) {
  row.job.hardware = hardware;
  return estimate(row.job, row.layout).step_seconds;
}

std::vector<PredictedRow> predict(const std::vector<PublishedRow>& rows, const Hardware& hardware) {
  std::vector<PredictedRow> predicted;
  for (const PublishedRow& row : rows) {
    predicted.push_back(with_prediction(row, predicted_seconds(row, hardware)));
  }
  return predicted;
}

/// A row's step where constants have other values, along the tangent at those of `hardware`: prices
/// are linear in the reciprocals of efficiencies and in seconds, but for choices between them.
class TangentStep {
 public:
  TangentStep(const PublishedRow& row, std::span<const FittedConstant> constants,
              const Hardware& hardware)
      : constants_(constants), seconds_(predicted_seconds(row, hardware)) {
    for (const FittedConstant& constant : constants) {
      const double value = hardware.*constant.field;
      const double other = value > 0 ? value * 1.001 : 1e-6;
      Hardware moved = hardware;
      moved.*constant.field = other;
      at_.push_back(place(constant, value));
      slopes_.push_back((predicted_seconds(row, moved) - seconds_) /
                        (place(constant, other) - at_.back()));
    }
  }

  double seconds(std::span<const double> values) const {
    double sum = seconds_;
    for (size_t i = 0; i < values.size(); ++i) {
      sum += slopes_[i] * (place(constants_[i], values[i]) - at_[i]);
    }
    return sum;
  }

 private:
  static double place(const FittedConstant& constant, double value) {
    const bool is_rate = constant.minimum > 0;
    return is_rate ? 1 / value : value;
  }

  std::span<const FittedConstant> constants_;
  double seconds_;
  std::vector<double> at_, slopes_;
};

/// matmul.efficiency, stream.efficiency and overheads.collective_seconds by the rows of Table 1,
/// again from where a fit ended until it stays there.
Hardware fitted(const std::vector<PublishedRow>& rows, Hardware hardware) {
  constexpr int kMostFits = 10;
  constexpr double kStays = 1e-4;
  std::vector<FittedConstant> constants;
  for (const char* key :
       {"matmul.efficiency", "stream.efficiency", "overheads.collective_seconds"}) {
    constants.push_back(fitted_constant(hardware, key));
  }
  const std::vector<FittedConstant> first = constants;
  std::vector<double> seconds;
  for (const PublishedRow& row : rows) seconds.push_back(row.seconds());
  Fit fit;
  bool stays = false;
  for (int i = 0; i < kMostFits && !stays; ++i) {
    std::vector<TangentStep> steps;
    for (const PublishedRow& row : rows) steps.emplace_back(row, constants, hardware);
    fit = fit_constants(constants, seconds, [&](std::span<const double> values, size_t row) {
      return steps[row].seconds(values);
    });
    stays = true;
    for (size_t k = 0; k < constants.size(); ++k) {
      stays = stays && std::abs(fit.values[k] - constants[k].start) <= kStays * constants[k].start;
      constants[k].start = fit.values[k];
    }
    hardware = calibrated(hardware, constants, fit);
  }
  std::printf("Constants fitted to Table 1, from those of the built-in dgx-a100\n");
  for (size_t k = 0; k < constants.size(); ++k) {
    std::printf("  %-40s %.6g (from %.6g)\n", constants[k].key, fit.values[k], first[k].start);
  }
  std::printf("  each row by the nine others: p90 %.1f %%, max %.1f %%\n",
              100 * fit.p90_leave_one_out, 100 * fit.maximum_leave_one_out);
  return hardware;
}

void judge_tables(const std::string& directory, const Hardware& hardware,
                  const std::vector<PublishedRow>& table1, Goals* goals) {
  const auto table = [&](const std::string& heading, const std::vector<PublishedRow>& rows) {
    const std::vector<PredictedRow> predicted = predict(rows, hardware);
    print_rows(heading, predicted);
    print_spread(spread_of(predicted, false));
    return predicted;
  };
  const Spread fit = spread_of(table("Table 1 of 2104.04473 (fitted to)", table1), false);
  goals->at_most("Table 1, rms", fit.rms, 2.5);
  goals->at_most("Table 1, max", fit.maximum, 5);
  std::vector<PublishedRow> tensor, zero3;
  for (PublishedRow& row : read_rows(directory + "/ptdp_table2.csv", hardware)) {
    (row.layout.zero == 3 ? zero3 : tensor).push_back(std::move(row));
  }
  std::vector<PredictedRow> others = table("Table 2 of 2104.04473, PTD-P", tensor);
  std::map<std::string, std::vector<PublishedRow>> figures;
  for (PublishedRow& row : read_rows(directory + "/ptdp_figures.csv", hardware)) {
    figures[row.table].push_back(std::move(row));
  }
  for (const auto& [name, rows] : figures) {
    const std::vector<PredictedRow> predicted = table(name + " of 2104.04473", rows);
    others.insert(others.end(), predicted.begin(), predicted.end());
  }
  std::printf("\nTable 2, PTD-P, and all figures\n");
  print_spread(spread_of(others, true));
  const Spread rest = spread_of(others, true);
  goals->at_most("median", rest.median, 5);
  goals->at_most("p90", rest.p90, 8);
  goals->at_most("max but for the outlier", rest.maximum, 10);
  judge_sweeps(others, goals);
  const std::vector<PredictedRow> baseline = table("Table 2 of 2104.04473, ZeRO-3", zero3);
  goals->at_most("ZeRO-3, max", spread_of(baseline, false).maximum, 15);
  judge_baseline(baseline, others, goals);
  const Spread sequence = spread_of(
      table("Table 5 of 2205.05198", read_rows(directory + "/korthikanti.csv", hardware)), false);
  goals->at_most("median", sequence.median, 4);
  goals->at_most("max", sequence.maximum, 10);
  tensor.insert(tensor.end(), zero3.begin(), zero3.end());
  judge_days(tensor, goals);
}

}  // namespace

int main(int count, char** arguments) {
  std::string directory;
  bool is_takeaways = false, is_speed = false;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--takeaways") {
      is_takeaways = true;
    } else if (argument == "--speed") {
      is_speed = true;
    } else {
      directory = argument;
    }
  }
  if (directory.empty() && !is_speed) {
    std::cerr << "usage: bench_planner DIR [--takeaways], bench_planner --speed\n";
    return 2;
  }
  try {
    if (is_speed) return print_planner_speed() ? 0 : 1;
    const Hardware start = start_hardware();
    const std::vector<PublishedRow> table1 = read_rows(directory + "/ptdp_table1.csv", start);
    const Hardware hardware = fitted(table1, start);
    Goals goals;
    if (is_takeaways) {
      judge_takeaways(directory, hardware, &goals);
    } else {
      judge_tables(directory, hardware, table1, &goals);
    }
    if (goals.missed() > 0) std::printf("\n%d goals missed\n", goals.missed());
    return goals.missed() > 0 ? 1 : 0;
  } catch (const Error& error) {
    std::cerr << "bench_planner: " << error.what() << "\n";
    return 2;
  }
}
