// Which shapes schedules have.
#pragma once

#include "engine/schedule/schedule.h"

namespace plait {

/// Most (micro, stage) pairs of a schedule: keeps sizes far from overflow and memory in bounds.
inline constexpr int64_t kMostPairs = int64_t{1} << 24;

/// Throws `argument` naming the numbers when the shape's kind does not admit them.
void check_shape(const ScheduleShape& shape);

/// p·v.
inline int64_t stage_count(const ScheduleShape& shape) { return shape.pipeline * shape.chunks; }

}  // namespace plait
