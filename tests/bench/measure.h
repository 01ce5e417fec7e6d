// Repeated timings and what the programs of the benchmark print: one JSON object a line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/json_text.h"

namespace plait::bench {

/// Seconds of a monotonic clock.
double now();

/// Timings of one thing, seconds.
struct Samples {
  std::vector<double> seconds;
  double quantile(double share) const;  ///< linear between neighbours; share in [0, 1]
  double median() const { return quantile(0.5); }
  double least() const { return quantile(0.0); }
  /// Distance of the quartiles over the median.
  double spread() const;
};

struct Repetition {
  double budget = 0.3;  ///< seconds after which no further run begins
  int least = 5;        ///< runs at least …
  int most = 200;       ///< … and at most
  double limit = 2.0;   ///< seconds after which `least` no longer holds (two runs always)
};

/// One run untimed, then runs as `repetition` says; body(i) with i counting from 0.
Samples measure(const Repetition& repetition, const std::function<void(int64_t)>& body);

/// One JSON object as a line of standard output.
void print_line(const JsonObject& object);
/// An array of numbers.
std::string json_numbers(const std::vector<double>& values);

/// VmHWM of this process, bytes; 0 where the system does not say.
int64_t peak_resident_bytes();
/// VmRSS, likewise.
int64_t resident_bytes();
/// What is resident now becomes the peak, where the system allows it.
void reset_peak_resident();

}  // namespace plait::bench
