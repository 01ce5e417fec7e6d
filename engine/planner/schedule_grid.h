// A schedule as a picture of text: a row for each pipeline coordinate, a column for each unit of
// time, in which every pass of a micro-batch takes one.
#pragma once

#include <string>

#include "engine/schedule/schedule.h"

namespace plait {

/// Cells "F3" and "B3" (forward and backward of micro-batch 3), "I3" and "W3" where backward comes
/// in two parts, with ".σ" behind them where a coordinate has several stages; "·" is idle. Lines
/// end with a newline; of a long schedule the first `most_columns` units are shown, then "…".
std::string schedule_grid(const Schedule& schedule, int64_t most_columns);

}  // namespace plait
