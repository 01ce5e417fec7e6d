#include "engine/planner/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

/// Rows of one search; the row `left_out` takes no part.
struct FitRows {
  std::span<const double> seconds;
  PredictTime predict;
  size_t left_out;

  double error(std::span<const double> values, size_t row) const {
    const double predicted = predict(values, row);
    if (!(predicted > 0) || !std::isfinite(predicted)) {
      throw Error("argument", "a fit needs predicted times above 0")
          .with("row", row)
          .with("predicted", predicted);
    }
    return seconds[row] / predicted - 1;
  }
  double mean_square(std::span<const double> values) const {
    double sum = 0, count = 0;
    for (size_t row = 0; row < seconds.size(); ++row) {
      if (row == left_out) continue;
      const double e = error(values, row);
      sum += e * e;
      ++count;
    }
    return sum / count;
  }
};

/// Tries every constant a step up and down until no step helps, then halves the steps. A move along
/// what the last round changed altogether follows valleys that lie across the axes.
std::vector<double> search_constants(std::span<const FittedConstant> constants, const FitRows& rows,
                                     std::vector<double> values) {
  constexpr double kFirstStep = 0.1, kLastStep = 1e-6;
  constexpr int kMostRounds = 400;
  const auto clamped = [&](size_t i, double value) {
    return std::clamp(value, constants[i].minimum, constants[i].maximum);
  };
  // A constant that starts at 0 is one of seconds: its steps are those of a short row.
  const double shortest = *std::min_element(rows.seconds.begin(), rows.seconds.end());
  std::vector<double> scales;
  for (const FittedConstant& c : constants) {
    scales.push_back(c.start != 0 ? std::abs(c.start) : shortest / 100);
  }
  double best = rows.mean_square(values);
  const auto take_better = [&](const std::vector<double>& tried) {
    if (tried == values) return false;
    const double square = rows.mean_square(tried);
    if (!(square < best)) return false;
    best = square;
    values = tried;
    return true;
  };
  double step = kFirstStep;
  for (int round = 0; round < kMostRounds && step > kLastStep; ++round) {
    const std::vector<double> before = values;
    bool has_moved = false;
    for (size_t i = 0; i < values.size(); ++i) {
      for (const double sign : {1.0, -1.0}) {
        std::vector<double> tried = values;
        tried[i] = clamped(i, values[i] + sign * step * scales[i]);
        if (!take_better(tried)) continue;
        has_moved = true;
        break;
      }
    }
    if (!has_moved) {
      step /= 2;
      continue;
    }
    for (double reach = 1; reach <= 64; reach *= 2) {
      std::vector<double> tried = values;
      for (size_t i = 0; i < values.size(); ++i) {
        tried[i] = clamped(i, values[i] + reach * (values[i] - before[i]));
      }
      if (!take_better(tried)) break;
    }
  }
  return values;
}

}  // namespace

FittedConstant fitted_constant(const Hardware& hardware, const char* key) {
  constexpr double kLeast = 1e-3;
  const FittedConstant all[] = {
      {"matmul.efficiency", &Hardware::product_efficiency, kLeast, 1},
      {"stream.efficiency", &Hardware::stream_efficiency, kLeast, 1},
      {"attention.forward_efficiency", &Hardware::attention_forward_efficiency, kLeast, 1},
      {"attention.backward_efficiency", &Hardware::attention_backward_efficiency, kLeast, 1},
      {"overheads.collective_seconds", &Hardware::collective_seconds, 0, 1},
      {"overheads.operation_seconds", &Hardware::operation_seconds, 0, 1},
      {"overheads.step_seconds", &Hardware::step_seconds, 0, 1},
  };
  for (FittedConstant constant : all) {
    if (std::strcmp(constant.key, key) != 0) continue;
    constant.start = std::clamp(hardware.*constant.field, constant.minimum, constant.maximum);
    return constant;
  }
  throw Error("argument", "this constant is not fitted").with("key", key);
}

double quantile(std::vector<double> magnitudes, double share) {
  if (magnitudes.empty()) return 0;
  for (double& value : magnitudes) value = std::abs(value);
  std::sort(magnitudes.begin(), magnitudes.end());
  return magnitudes[static_cast<size_t>(share * static_cast<double>(magnitudes.size() - 1))];
}

Fit fit_constants(std::span<const FittedConstant> constants, std::span<const double> seconds,
                  PredictTime predict) {
  if (seconds.empty() || seconds.size() < constants.size()) {
    throw Error("argument", "a fit needs at least as many measured rows as constants")
        .with("rows", seconds.size())
        .with("constants", constants.size());
  }
  std::vector<double> start;
  for (const FittedConstant& constant : constants) start.push_back(constant.start);
  const FitRows all{seconds, predict, seconds.size()};
  Fit fit;
  fit.values = search_constants(constants, all, start);
  double squares = 0;
  for (size_t row = 0; row < seconds.size(); ++row) {
    fit.errors.push_back(all.error(fit.values, row));
    squares += fit.errors[row] * fit.errors[row];
  }
  fit.rms = std::sqrt(squares / static_cast<double>(seconds.size()));
  fit.maximum = quantile(fit.errors, 1);
  for (size_t row = 0; row < seconds.size() && seconds.size() > 1; ++row) {
    const FitRows others{seconds, predict, row};
    fit.left_out.push_back(others.error(search_constants(constants, others, fit.values), row));
  }
  fit.p90_leave_one_out = quantile(fit.left_out, 0.9);
  fit.maximum_leave_one_out = quantile(fit.left_out, 1);
  return fit;
}

Hardware calibrated(const Hardware& hardware, std::span<const FittedConstant> constants,
                    const Fit& fit) {
  Hardware out = hardware;
  Calibration calibration;
  for (size_t i = 0; i < constants.size(); ++i) {
    out.*constants[i].field = fit.values[i];
    calibration.fitted.emplace_back(constants[i].key);
  }
  calibration.points = static_cast<int64_t>(fit.errors.size());
  calibration.rms = fit.rms;
  calibration.maximum = fit.maximum;
  calibration.p90_leave_one_out = fit.p90_leave_one_out;
  calibration.maximum_leave_one_out = fit.maximum_leave_one_out;
  out.calibration = std::move(calibration);
  return out;
}

}  // namespace plait
