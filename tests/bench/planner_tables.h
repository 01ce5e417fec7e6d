// Tables of published and predicted figures, and what is asked of them.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/planner_rows.h"

namespace plait::bench {

/// A row with its prediction.
struct PredictedRow {
  PublishedRow row;
  double predicted = 0;  ///< in the row's metric
  double error = 0;  ///< of a rate predicted/published − 1, of a time the other way: > 0 too fast
};

/// Predicts a row; `seconds` are those of a step.
PredictedRow with_prediction(const PublishedRow& row, double seconds);

/// Magnitudes of errors, in per cent.
struct Spread {
  size_t rows = 0;
  double rms = 0, median = 0, p90 = 0, maximum = 0;
  std::string worst;
};
/// Rows that their file marks as outliers count in all but the maximum where `is_lenient`.
Spread spread_of(const std::vector<PredictedRow>& rows, bool is_lenient);

void print_rows(const std::string& heading, const std::vector<PredictedRow>& rows);
void print_spread(const Spread& spread);

/// Goals that were checked, and how many were missed.
class Goals {
 public:
  /// Prints the goal and what was reached.
  void at_most(const std::string& what, double value, double limit, const char* unit = "%");
  void holds(const std::string& what, bool does);
  int missed() const { return missed_; }

 private:
  int missed_ = 0;
};

/// Figures 13 and 16: the layout that the predictions choose against the best measured one.
void judge_sweeps(const std::vector<PredictedRow>& rows, Goals* goals);
/// ZeRO-3 against PTD-P on twice and four times the fewest devices.
void judge_baseline(const std::vector<PredictedRow>& baseline,
                    const std::vector<PredictedRow>& others, Goals* goals);
/// The published days of 300e9 tokens against those that the published rates make.
void judge_days(const std::vector<PublishedRow>& rows, Goals* goals);

}  // namespace plait::bench
