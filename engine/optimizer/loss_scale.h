// Dynamic loss scale of fp16 (1710.03740): changed by the one global decision of a step alone.
#pragma once

#include <cstdint>

namespace plait {

class LossScale {
 public:
  struct Options {
    bool is_dynamic = false;  ///< else the scale stays at start
    double start = 1.0;
    int64_t window = 1000;   ///< clean steps before the scale doubles
    int64_t hysteresis = 2;  ///< overflows before it halves
    double minimum = 1.0;
    double maximum = 16777216.0;
  };
  explicit LossScale(const Options& options)
      : options_(options), scale_(options.start), hysteresis_(options.hysteresis) {}

  double scale() const { return scale_; }
  /// After an applied step.
  void clean_step();
  /// After a step that overflowed. False when the scale was due to fall below its minimum.
  bool overflow();

 private:
  Options options_;
  double scale_;
  int64_t good_ = 0;
  int64_t hysteresis_;
};

}  // namespace plait
