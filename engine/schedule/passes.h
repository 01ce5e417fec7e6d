// From compute instructions to a rank's whole list. Each pass is a pure function from list to list;
// `make_schedule` runs them in the order in which they stand here.
//
// Around one backward pass of ZeRO 3 in the middle of a pipeline they make
//
//   gather σ, receive backward μ σ, backward μ σ, send backward μ σ−1, release σ, reduce μ σ.
#pragma once

#include "engine/schedule/schedule.h"

namespace plait {

/// Adds `reduce`: after every backward in ZeRO 2 and 3, else after a stage's last weight gradient.
InstructionList add_reductions(const InstructionList& list, const ScheduleShape& shape);

/// ZeRO 3: brackets each forward and backward between `gather` and `release` of its stage.
InstructionList add_weight_windows(const InstructionList& list, const ScheduleShape& shape);

/// Adds a receive right before each instruction that uses a message and a send right after each
/// that makes one.
InstructionList add_messages(const InstructionList& list, const ScheduleShape& shape);

/// Adds `step`, and after it the gathers of ZeRO 1 and 2 for the stages of `coordinate`.
InstructionList add_step(const InstructionList& list, const ScheduleShape& shape,
                         int64_t coordinate);

}  // namespace plait
