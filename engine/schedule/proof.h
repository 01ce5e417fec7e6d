// The parts of `validate` and how they speak of what they find.
#pragma once

#include <string>
#include <vector>

#include "engine/schedule/schedule.h"
#include "engine/schedule/walk.h"
#include "kernels/base/error.h"

namespace plait {

/// How errors about a schedule speak of it.
struct ScheduleSource {
  /// Of violations: a schedule that Plait made is an invariant, one that came as text an argument.
  const char* word = "invariant";
  /// Lines of the text, from 1: for each list its heading, then its instructions. Empty: the
  /// schedule came from no text, its lines are those of `schedule_text`.
  std::vector<std::vector<int64_t>> lines;
};

/// An instruction of a schedule. `index` may be the list's size, which stands for its end.
struct SchedulePoint {
  const Schedule& schedule;
  const ScheduleSource& source;
  int64_t coordinate = 0;
  size_t index = 0;

  /// The line of the text, from 1; at the end of a list that of its last line.
  int64_t line() const;
  /// Its text; "" at the end of a list.
  std::string text() const;
  Error error(const char* sentence) const;
};

/// `validate` for a schedule whose text is at hand.
void prove(const Schedule& schedule, const ScheduleSource& source);

/// Coverage, peak counts and data flow of one list. The lists of all coordinates proved, every
/// message has one send and one receive.
void prove_list(const Schedule& schedule, const ScheduleSource& source, int64_t coordinate);

/// The error for instructions that wait for each other in a circle.
Error deadlock_error(const Schedule& schedule, const ScheduleSource& source,
                     const std::vector<Walk::Place>& circle);

}  // namespace plait
