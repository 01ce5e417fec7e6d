// What is proved of every schedule before a rank runs it: here of all lists together.
#include <algorithm>
#include <vector>

#include "engine/schedule/operation.h"
#include "engine/schedule/proof.h"
#include "engine/schedule/shape.h"

namespace plait {
namespace {

/// Places of the messages of every lane at one of its ends, in list order.
std::vector<std::vector<Walk::Place>> lane_ends(const Schedule& schedule,
                                                bool (*is_end)(Operation)) {
  const int64_t pipeline = schedule.shape.pipeline;
  std::vector<std::vector<Walk::Place>> lanes(static_cast<size_t>(2 * pipeline));
  for (size_t coordinate = 0; coordinate < schedule.lists.size(); ++coordinate) {
    const InstructionList& list = schedule.lists[coordinate];
    for (size_t i = 0; i < list.size(); ++i) {
      if (!is_end(list[i].operation)) continue;
      lanes[static_cast<size_t>(lane_of(list[i], pipeline))].push_back(
          {static_cast<int64_t>(coordinate), i});
    }
  }
  return lanes;
}

const Instruction& at(const Schedule& schedule, const Walk::Place& place) {
  return schedule.lists[static_cast<size_t>(place.coordinate)][place.index];
}

void prove_lanes(const Schedule& schedule, const ScheduleSource& source) {
  const auto sends = lane_ends(schedule, is_send), receives = lane_ends(schedule, is_receive);
  for (size_t lane = 0; lane < sends.size(); ++lane) {
    check(sends[lane].size() == receives[lane].size(), "every message has two ends");
    for (size_t i = 0; i < sends[lane].size(); ++i) {
      const Walk::Place& place = receives[lane][i];
      const Instruction &sent = at(schedule, sends[lane][i]), &received = at(schedule, place);
      if (sent.micro == received.micro && sent.stage == received.stage) continue;
      throw SchedulePoint{schedule, source, place.coordinate, place.index}
          .error("a lane's messages are received in the order in which they are sent")
          .with("sent", instruction_text(sent))
          .with("source", sends[lane][i].coordinate);
    }
  }
}

void prove_no_deadlock(const Schedule& schedule, const ScheduleSource& source) {
  Walk walk(schedule);
  while (walk.next()) continue;
  const auto circle = walk.circle();
  if (!circle.empty()) throw deadlock_error(schedule, source, circle);
}

}  // namespace

int64_t SchedulePoint::line() const {
  const auto c = static_cast<size_t>(coordinate);
  if (!source.lines.empty()) {
    const auto& lines = source.lines[c];
    return index + 1 < lines.size() ? lines[index + 1] : lines.back();
  }
  size_t heading = 3;
  for (size_t i = 0; i < c; ++i) heading += 1 + schedule.lists[i].size();
  return static_cast<int64_t>(heading + std::min(index + 1, schedule.lists[c].size()));
}

std::string SchedulePoint::text() const {
  const InstructionList& list = schedule.lists[static_cast<size_t>(coordinate)];
  return index < list.size() ? instruction_text(list[index]) : "";
}

Error SchedulePoint::error(const char* sentence) const {
  return Error(source.word, sentence)
      .with("pipeline", coordinate)
      .with("line", line())
      .with("instruction", text());
}

Error deadlock_error(const Schedule& schedule, const ScheduleSource& source,
                     const std::vector<Walk::Place>& circle) {
  std::vector<SchedulePoint> points;
  for (const Walk::Place& place : circle) {
    points.push_back({schedule, source, place.coordinate, place.index});
  }
  const SchedulePoint& second = points[1 % points.size()];
  return points[0]
      .error("instructions wait for each other")
      .with("waits_for", second.text())
      .with("waits_for_pipeline", second.coordinate)
      .with("waits_for_line", second.line())
      .with("circle", points.size());
}

void prove(const Schedule& schedule, const ScheduleSource& source) {
  check_shape(schedule.shape);
  if (static_cast<int64_t>(schedule.lists.size()) != schedule.shape.pipeline) {
    throw Error(source.word, "a schedule has one list for each pipeline coordinate")
        .with("lists", schedule.lists.size())
        .with("pipeline", schedule.shape.pipeline);
  }
  for (int64_t coordinate = 0; coordinate < schedule.shape.pipeline; ++coordinate) {
    prove_list(schedule, source, coordinate);
  }
  prove_lanes(schedule, source);
  prove_no_deadlock(schedule, source);
}

void validate(const Schedule& schedule) { prove(schedule, {}); }

}  // namespace plait
