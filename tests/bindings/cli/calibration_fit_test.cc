// Linear constants are found again, stay within their bounds, and rows are foretold by the others.
#include "bindings/cli/calibration_fit.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace plait::cli {
namespace {

/// Steps that are sums of work times a constant; predicted with the constants at `at`.
std::vector<FitRow> rows_of(const std::vector<double>& planted, const std::vector<double>& at) {
  const std::vector<std::vector<double>> work = {{1, 0, 8}, {2, 30, 4}, {4, 5, 2}, {0.5, 9, 9}};
  std::vector<FitRow> rows;
  for (const std::vector<double>& slopes : work) {
    FitRow row{0, 0, slopes};
    for (size_t i = 0; i < slopes.size(); ++i) {
      row.measured += slopes[i] * planted[i];
      row.predicted += slopes[i] * at[i];
    }
    rows.push_back(row);
  }
  return rows;
}

TEST_CASE("changes lead to the constants that made the steps") {
  const std::vector<FitRow> rows = rows_of({0.5, 0.02, 0.1}, {0.3, 0.1, 0.1});
  const std::vector<double> changes = fitted_changes(rows, {-1, -1, -1}, rows.size());
  CHECK(changes[0] == Approx(0.2).margin(1e-6));
  CHECK(changes[1] == Approx(-0.08).margin(1e-6));
  CHECK(changes[2] == Approx(0).margin(1e-6));
  CHECK(changed_prediction(rows[1], changes) == Approx(rows[1].measured));
  for (const double error : leave_one_out(rows, {-1, -1, -1})) CHECK(std::abs(error) < 1e-4);
}

TEST_CASE("a constant stops at its bound") {
  const std::vector<FitRow> rows = rows_of({0.5, 0, 0.1}, {0.3, 0.1, 0.1});
  const std::vector<double> changes = fitted_changes(rows, {-1, -0.05, -1}, rows.size());
  CHECK(changes[1] == -0.05);
}

TEST_CASE("a step that nobody could foretell shows when it is left out") {
  std::vector<FitRow> rows = rows_of({0.5, 0.02, 0.1}, {0.5, 0.02, 0.1});
  rows[3].measured *= 1.5;
  CHECK(leave_one_out(rows, {-0.5, -0.02, -0.1})[3] == Approx(0.5).margin(1e-3));
}

TEST_CASE("only constants that move a prediction are fitted, one fewer than steps") {
  std::vector<FitRow> rows = rows_of({0.5, 0.02, 0.1}, {0.5, 0.02, 0.1});
  for (FitRow& row : rows) row.slopes[1] = 0;
  CHECK(determined_constants(rows, {0.1, 0.1, 0.1}) == std::vector<size_t>{0, 2});
  rows.resize(2);
  CHECK(determined_constants(rows, {0.1, 0.1, 0.1}) == std::vector<size_t>{0});
}

}  // namespace
}  // namespace plait::cli
