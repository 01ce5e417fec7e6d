// Steps of one engine under two conditions in turns, so that whatever slows the machine meets both:
// with and without a clock around each op, with and without a busy neighbour.
#pragma once

#include <string>

#include "tests/bench/engine_run.h"
#include "tests/bench/neighbour.h"

namespace plait::bench {

struct TurnLimits {
  double seconds = 5;  ///< after which no further turn begins, once there were `least`
  int64_t least = 2;
  int64_t most = 50;
};

/// JSON: `plain` and `watched`, seconds of a step in each turn without and with the clock; `ops`,
/// totals over the watched steps. Throws std::runtime_error when no op passed the watch.
std::string steps_by_op(EngineRun& engine, const TurnLimits& limits);

/// JSON: `alone` and `busy`, the median step of each turn's blocks; what the neighbour had of the
/// processors in the one and the other, over the blocks' seconds; `is_gone` once it was ended.
std::string steps_with_neighbour(EngineRun& engine, Neighbour& neighbour, const TurnLimits& limits);

}  // namespace plait::bench
