#include "engine/trainer/trace_text.h"

#include <algorithm>

#include "kernels/base/chrome_trace.h"

namespace plait {
namespace {

bool is_compute(Operation operation) {
  switch (operation) {
    case Operation::kForward:
    case Operation::kBackward:
    case Operation::kBackwardInput:
    case Operation::kBackwardWeight:
    case Operation::kStep:
      return true;
    default:
      return false;
  }
}

/// An instruction, or a communication operation.
struct Event {
  int64_t begin_ns = 0, end_ns = 0;
  const TraceEvent* instruction = nullptr;
  const OperationRecord* operation = nullptr;
};

/// By begin; of those that begin together the longer first, so that it holds the others.
std::vector<Event> events_of(const TraceLane& lane) {
  std::vector<Event> events;
  events.reserve(lane.instructions.size() + lane.operations.size());
  for (const TraceEvent& one : lane.instructions) {
    events.push_back({one.begin_ns, one.end_ns, &one, nullptr});
  }
  for (const OperationRecord& one : lane.operations) {
    events.push_back({one.begin_ns, one.end_ns, nullptr, &one});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  return events;
}

void add_lane(const TraceLane& lane, int64_t start_ns, ChromeTrace* trace) {
  std::vector<int64_t> open;  // ends of the events around the next one
  for (const Event& event : events_of(lane)) {
    ChromeTrace::Event out;
    out.lane = lane.rank;
    out.begin_ns = event.begin_ns - start_ns;
    out.end_ns = event.end_ns - start_ns;
    std::string name;
    if (event.instruction != nullptr) {
      const Instruction& instruction = event.instruction->instruction;
      name = instruction_text(instruction);
      out.category = is_compute(instruction.operation) ? "compute" : "communication";
      out.arguments = JsonObject()
                          .field("micro", instruction.micro)
                          .field("stage", instruction.stage)
                          .field("step", event.instruction->step)
                          .text();
    } else {
      name = event.operation->name;
      out.category = "communication";
      out.arguments = JsonObject()
                          .field("sequence", event.operation->sequence)
                          .field("bytes", event.operation->bytes)
                          .text();
    }
    out.name = name;
    while (!open.empty() && open.back() <= event.begin_ns) open.pop_back();
    // A reduction that runs beside passes may end in another instruction than it began in.
    if (!open.empty() && open.back() < event.end_ns) {
      trace->add_across(out);
      continue;
    }
    open.push_back(event.end_ns);
    trace->add(out);
  }
}

}  // namespace

std::string lane_name(int64_t rank, const Coordinates& at) {
  return "rank " + std::to_string(rank) + " (tensor " + std::to_string(at.tensor) + " pipeline " +
         std::to_string(at.pipeline) + " data " + std::to_string(at.data) + ")";
}

std::string trace_text(const std::vector<TraceLane>& lanes, int64_t left_out) {
  const int64_t first = lanes.front().rank, last = lanes.back().rank;
  ChromeTrace trace(first, first == last ? "plait rank " + std::to_string(first)
                                         : "plait ranks " + std::to_string(first) + " to " +
                                               std::to_string(last));
  int64_t start_ns = INT64_MAX;
  for (const TraceLane& lane : lanes) {
    trace.add_lane(lane.rank, lane_name(lane.rank, lane.at));
    for (const TraceEvent& event : lane.instructions) {
      start_ns = std::min(start_ns, event.begin_ns);
    }
  }
  for (const TraceLane& lane : lanes) add_lane(lane, start_ns, &trace);
  trace.add_fact("start_ns", std::to_string(start_ns == INT64_MAX ? 0 : start_ns));
  trace.add_fact("left_out", std::to_string(left_out));
  return trace.text();
}

}  // namespace plait
