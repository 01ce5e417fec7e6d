// Fits constants of a description to measured times: a coordinate search that minimises the mean
// square of the relative errors, and how well each time is foretold by the others.
//
// The error of a time is measured/predicted − 1, which is that of the rate as well: positive where
// the prediction is too fast. Pure; asks for predictions alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/planner/hardware.h"
#include "kernels/base/function_ref.h"

namespace plait {

/// A field of a description that may be fitted.
struct FittedConstant {
  const char* key = "";  ///< "matmul.efficiency", …: without "hardware."
  double Hardware::*field = nullptr;
  double minimum = 0, maximum = 1;
  double start = 0;  ///< within the range
};

/// matmul.efficiency, stream.efficiency, attention.* and overheads.*; its start is what `hardware`
/// holds. Throws `argument` for another.
FittedConstant fitted_constant(const Hardware& hardware, const char* key);

/// Seconds of row `row` when the constants have these values.
using PredictTime = FunctionRef<double(std::span<const double> values, size_t row)>;

struct Fit {
  std::vector<double> values;    ///< by constant
  std::vector<double> errors;    ///< by row
  std::vector<double> left_out;  ///< error of each row by constants that are fitted to the others
  double rms = 0, maximum = 0;   ///< of `errors`
  double p90_leave_one_out = 0;  ///< element ⌊0.9(n − 1)⌋ of the sorted magnitudes of `left_out`
  double maximum_leave_one_out = 0;
};

/// `seconds` are measured, one for each row, above 0. Throws `argument` when there are fewer rows
/// than constants or a prediction is not above 0. With one row nothing is left out.
Fit fit_constants(std::span<const FittedConstant> constants, std::span<const double> seconds,
                  PredictTime predict);

/// `hardware` with the fitted values, and `calibration` filled but for profile, data, date,
/// version, dtype and largest_world.
Hardware calibrated(const Hardware& hardware, std::span<const FittedConstant> constants,
                    const Fit& fit);

/// Of magnitudes, sorted or not: element ⌊share(n − 1)⌋.
double quantile(std::vector<double> magnitudes, double share);

}  // namespace plait
