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

  /// All that changes over a run.
  struct State {
    double scale = 1.0;
    int64_t good_steps = 0;       ///< clean ones in a row
    int64_t hysteresis_left = 0;  ///< not positive inside a back-off
  };

  bool is_dynamic() const { return options_.is_dynamic; }
  double scale() const { return scale_; }
  State state() const { return {scale_, good_, hysteresis_}; }
  /// Goes on where another run was; a scale that never changes stays.
  void restore(const State& state);
  /// As at the start of a run.
  void restart() { *this = LossScale(options_); }
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
