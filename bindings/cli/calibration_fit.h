// Constants that fit measured steps, where predictions are nearly linear in them.
//
// engine/planner/calibrate searches for constants of whole tables by evaluating estimates; here
// each prediction is a plan through the library, so slopes are taken once and the rest is
// arithmetic.
#pragma once

#include <cstddef>
#include <vector>

namespace plait::cli {

/// A step: measured, predicted at some values, and how the prediction grows with each value.
struct FitRow {
  double measured = 0, predicted = 0;
  std::vector<double> slopes;
};

/// Changes of the values, each at least `least`, that minimise the sum of the squares of
/// predicted/measured − 1. The row `left_out` takes no part; rows.size(): all do.
std::vector<double> fitted_changes(const std::vector<FitRow>& rows,
                                   const std::vector<double>& least, size_t left_out);

/// The prediction of a row after changes.
double changed_prediction(const FitRow& row, const std::vector<double>& changes);

/// Rows of which each is foretold by the others: measured/predicted − 1.
std::vector<double> leave_one_out(const std::vector<FitRow>& rows,
                                  const std::vector<double>& least);

/// The constants that these rows can tell apart: at most one fewer than rows, in their order, each
/// of which moves some prediction. `reach` is how far each constant may sensibly move.
std::vector<size_t> determined_constants(const std::vector<FitRow>& rows,
                                         const std::vector<double>& reach);

}  // namespace plait::cli
