#include "engine/schedule/walk.h"

#include <algorithm>

#include "engine/schedule/operation.h"

namespace plait {

Walk::Walk(const Schedule& schedule)
    : schedule_(schedule),
      index_(schedule.lists.size()),
      is_full_(2 * schedule.lists.size()),
      is_listed_(schedule.lists.size(), true) {
  for (size_t i = schedule.lists.size(); i-- > 0;) ready_.push_back(static_cast<int64_t>(i));
}

bool Walk::is_done(int64_t coordinate) const {
  const auto i = static_cast<size_t>(coordinate);
  return index_[i] == schedule_.lists[i].size();
}

bool Walk::may_run(const Instruction& instruction) const {
  const bool sends = is_send(instruction.operation);
  if (!sends && !is_receive(instruction.operation)) return true;
  return is_full_[static_cast<size_t>(lane_of(instruction, schedule_.shape.pipeline))] != sends;
}

void Walk::run(const Instruction& instruction) {
  const int64_t pipeline = schedule_.shape.pipeline;
  const bool sends = is_send(instruction.operation);
  if (!sends && !is_receive(instruction.operation)) return;
  is_full_[static_cast<size_t>(lane_of(instruction, pipeline))] = sends;
  const int64_t other =
      sends ? message_destination(instruction, pipeline) : message_source(instruction, pipeline);
  if (is_listed_[static_cast<size_t>(other)]) return;
  is_listed_[static_cast<size_t>(other)] = true;
  ready_.push_back(other);
}

std::optional<Walk::Place> Walk::next() {
  while (!ready_.empty()) {
    const int64_t coordinate = ready_.back();
    const auto i = static_cast<size_t>(coordinate);
    if (!is_done(coordinate) && may_run(schedule_.lists[i][index_[i]])) {
      const Place place{coordinate, index_[i]++};
      run(schedule_.lists[i][place.index]);
      return place;
    }
    ready_.pop_back();
    is_listed_[i] = false;
  }
  return std::nullopt;
}

/// The coordinate whose send or receive lets this one go on.
int64_t Walk::awaited(int64_t coordinate) const {
  const auto i = static_cast<size_t>(coordinate);
  const Instruction& instruction = schedule_.lists[i][index_[i]];
  return is_send(instruction.operation) ? message_destination(instruction, schedule_.shape.pipeline)
                                        : message_source(instruction, schedule_.shape.pipeline);
}

std::vector<Walk::Place> Walk::circle() const {
  int64_t at = 0;
  const auto coordinates = static_cast<int64_t>(schedule_.lists.size());
  while (at < coordinates && is_done(at)) ++at;
  if (at == coordinates) return {};
  // Whoever waits is waited for by way of a message, so following long enough enters a circle.
  for (int64_t i = 0; i < coordinates && !is_done(awaited(at)); ++i) at = awaited(at);
  std::vector<Place> places;
  const int64_t first = at;
  do {
    places.push_back({at, index_[static_cast<size_t>(at)]});
    at = awaited(at);
  } while (at != first && !is_done(at));
  const auto lowest =
      std::min_element(places.begin(), places.end(),
                       [](const Place& a, const Place& b) { return a.coordinate < b.coordinate; });
  std::rotate(places.begin(), lowest, places.end());
  return places;
}

}  // namespace plait
