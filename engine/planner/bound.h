// Less than any schedule of a layout takes; private to this room.
#pragma once

#include "engine/planner/estimate.h"

namespace plait {

/// Seconds of a step, from what `price` fills in.
double bound_seconds(const Job& job, const Estimate& estimate);

}  // namespace plait
