// Seconds of what a virtual stage runs, sends and exchanges; private to this room.
#pragma once

#include <vector>

#include "engine/planner/estimate.h"

namespace plait {

/// Passes and messages by σ. Stages that are alike are priced once.
std::vector<StageTimes> price_stages(const Job& job, const LayoutConfig& layout);

/// What closes a step; fills in the data axis of `stages`.
StepTimes price_step(const Job& job, const LayoutConfig& layout, std::vector<StageTimes>* stages);

}  // namespace plait
