// Constants are found again from times that they made, and rows foretold by the others.
#include "engine/planner/calibrate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "kernels/base/error.h"

namespace plait {
namespace {

/// What a step is made of: FLOPs, bytes, collectives.
struct Row {
  double flops, bytes, collectives;
};

const std::vector<Row> kRows = {{4e12, 1e11, 100}, {1e12, 2e11, 400}, {8e12, 3e10, 50},
                                {2e12, 2e11, 900}, {3e11, 5e10, 700}, {9e12, 4e11, 10}};

double seconds_of(const Row& row, std::span<const double> constants) {
  return row.flops / (1e13 * constants[0]) + row.bytes / (1e12 * constants[1]) +
         row.collectives * constants[2];
}

Hardware start() {
  Hardware hardware;
  hardware.product_efficiency = 0.5;
  hardware.stream_efficiency = 0.9;
  return hardware;
}

std::vector<FittedConstant> three_constants() {
  return {fitted_constant(start(), "matmul.efficiency"),
          fitted_constant(start(), "stream.efficiency"),
          fitted_constant(start(), "overheads.collective_seconds")};
}

std::vector<double> planted(const std::vector<double>& constants) {
  std::vector<double> seconds;
  for (const Row& row : kRows) seconds.push_back(seconds_of(row, constants));
  return seconds;
}

Fit fit(const std::vector<double>& seconds) {
  return fit_constants(three_constants(), seconds, [](std::span<const double> values, size_t row) {
    return seconds_of(kRows[row], values);
  });
}

TEST_CASE("constants that made the times are found again") {
  const std::vector<double> made = {0.8, 0.6, 2e-4};
  const Fit found = fit(planted(made));
  REQUIRE(found.values.size() == 3);
  for (size_t i = 0; i < made.size(); ++i) CHECK(found.values[i] == Approx(made[i]).epsilon(1e-3));
  CHECK(found.rms < 1e-4);
  CHECK(found.maximum < 1e-3);
  REQUIRE(found.left_out.size() == kRows.size());
  CHECK(found.maximum_leave_one_out < 0.01);
}

TEST_CASE(
    "a row unlike the others is foretold badly by them, and errors are positive where the "
    "prediction is too fast") {
  std::vector<double> seconds = planted({0.8, 0.6, 2e-4});
  seconds[5] *= 1.2;
  const Fit found = fit(seconds);
  CHECK(found.left_out[5] == Approx(0.2).margin(0.02));
  CHECK(found.errors[5] > 0);
  CHECK(found.errors[5] < found.left_out[5]);
  CHECK(found.maximum_leave_one_out >= found.p90_leave_one_out);
  CHECK(found.rms <= found.maximum);
}

TEST_CASE("constants stay within their ranges") {
  // Faster than the peak allows.
  const Fit found = fit(planted({2.0, 0.6, 2e-4}));
  CHECK(found.values[0] == 1.0);
  CHECK(found.values[2] >= 0);
}

TEST_CASE("a fitted description holds the values and says what they rest on") {
  const Fit found = fit(planted({0.8, 0.6, 2e-4}));
  const auto constants = three_constants();
  const Hardware hardware = calibrated(start(), constants, found);
  CHECK(hardware.product_efficiency == found.values[0]);
  CHECK(hardware.stream_efficiency == found.values[1]);
  CHECK(hardware.collective_seconds == found.values[2]);
  REQUIRE(hardware.calibration.has_value());
  CHECK(hardware.calibration->points == 6);
  CHECK(hardware.calibration->fitted.at(2) == "overheads.collective_seconds");
  CHECK(hardware.calibration->p90_leave_one_out == found.p90_leave_one_out);
}

TEST_CASE("what cannot be fitted is refused") {
  const auto word_of = [](auto&& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.word();
    }
    return "";
  };
  CHECK(word_of([] { fitted_constant(start(), "overlap_exponent"); }) == "argument");
  CHECK(word_of([] { fit({1.0, 2.0}); }) == "argument");
  CHECK(word_of([] {
          fit_constants(three_constants(), planted({0.8, 0.6, 0}),
                        [](std::span<const double>, size_t) { return 0.0; });
        }) == "argument");
}

TEST_CASE("a quantile is the element below its place") {
  CHECK(quantile({-5, 1, 3, -2, 4, 6, 7, 8, 9, 10}, 0.9) == 9);
  CHECK(quantile({3}, 0.9) == 3);
  CHECK(quantile({}, 0.9) == 0);
}

}  // namespace
}  // namespace plait
