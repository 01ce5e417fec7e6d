#include "bindings/cli/calibration_fit.h"

#include <algorithm>
#include <cmath>

namespace plait::cli {

double changed_prediction(const FitRow& row, const std::vector<double>& changes) {
  double predicted = row.predicted;
  for (size_t i = 0; i < changes.size(); ++i) predicted += row.slopes[i] * changes[i];
  return predicted;
}

std::vector<double> fitted_changes(const std::vector<FitRow>& rows,
                                   const std::vector<double>& least, size_t left_out) {
  constexpr int kRounds = 2000;
  constexpr double kEnd = 1e-12;
  std::vector<double> changes(least.size(), 0);
  for (int round = 0; round < kRounds; ++round) {
    double moved = 0;
    for (size_t i = 0; i < changes.size(); ++i) {
      // The best value of this constant while the others stand.
      double along = 0, square = 0;
      for (size_t r = 0; r < rows.size(); ++r) {
        if (r == left_out) continue;
        const double slope = rows[r].slopes[i] / rows[r].measured;
        along += slope * (changed_prediction(rows[r], changes) / rows[r].measured - 1);
        square += slope * slope;
      }
      if (square == 0) continue;
      const double next = std::max(changes[i] - along / square, least[i]);
      moved = std::max(moved, std::abs(next - changes[i]) * std::sqrt(square));
      changes[i] = next;
    }
    if (moved < kEnd) break;
  }
  return changes;
}

std::vector<double> leave_one_out(const std::vector<FitRow>& rows,
                                  const std::vector<double>& least) {
  std::vector<double> errors;
  for (size_t r = 0; r < rows.size(); ++r) {
    const double predicted = changed_prediction(rows[r], fitted_changes(rows, least, r));
    errors.push_back(rows[r].measured / predicted - 1);
  }
  return errors;
}

std::vector<size_t> determined_constants(const std::vector<FitRow>& rows,
                                         const std::vector<double>& reach) {
  constexpr double kLeastEffect = 0.002;
  std::vector<size_t> chosen;
  for (size_t i = 0; i < reach.size() && chosen.size() + 1 < rows.size(); ++i) {
    double effect = 0;
    for (const FitRow& row : rows) {
      effect = std::max(effect, std::abs(row.slopes[i] * reach[i]) / row.measured);
    }
    if (effect > kLeastEffect) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace plait::cli
