// A step in virtual time as a Chrome trace.
#include <algorithm>
#include <cmath>

#include "engine/planner/report.h"
#include "engine/schedule/operation.h"
#include "kernels/base/chrome_trace.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// Saved state after an instruction: +1 and −1 micro-batch of one chunk.
int64_t alive_change(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return 1;
    case Operation::kBackward:
    case Operation::kBackwardWeight:
      return -1;
    case Operation::kBackwardInput:
    case Operation::kSendForward:
    case Operation::kSendBackward:
    case Operation::kReceiveForward:
    case Operation::kReceiveBackward:
    case Operation::kGather:
    case Operation::kRelease:
    case Operation::kReduce:
    case Operation::kStep:
      return 0;
  }
  return 0;
}

const char* trace_category(Operation operation) {
  const bool computes = alive_change(operation) != 0 || operation == Operation::kBackwardInput ||
                        operation == Operation::kStep;
  return computes ? "compute" : "communication";
}

class TimelineWriter {
 public:
  TimelineWriter(const Job& job, const Estimate& estimate)
      : estimate_(estimate),
        layout_(estimate.layout),
        schedule_(layout_schedule(job, estimate.layout)),
        prices_(simulation_prices(job, estimate)),
        simulation_(simulate(schedule_, prices_)),
        trace_(0, "plait plan") {}

  std::string text() {
    const auto coordinates = static_cast<int64_t>(schedule_.lists.size());
    for (int64_t c = 0; c < coordinates; ++c) trace_.add_lane(rank_of(c), rank_name(c));
    for (const int direction : {0, 1}) {
      for (int64_t c = 0; c < coordinates; ++c) {
        if (sends(c, direction)) trace_.add_lane(link_of(c, direction), link_name(c, direction));
      }
    }
    for (int64_t c = 0; c < coordinates; ++c) {
      add_instructions(c);
      add_messages(c);
      add_saved_state(c);
    }
    trace_.add_fact("start_ns", "0");
    trace_.add_fact("left_out", "0");
    trace_.add_fact("is_simulated", "true");
    trace_.add_fact("layout", json_string(layout_text(layout_)));
    trace_.add_fact("step_seconds", json_number(simulation_.makespan));
    trace_.add_fact("idle_share", json_number(simulation_.idle_share));
    return trace_.text();
  }

 private:
  int64_t rank_of(int64_t coordinate) const { return layout_.tensor * layout_.data * coordinate; }

  std::string rank_name(int64_t coordinate) const {
    return "rank " + std::to_string(rank_of(coordinate)) + " (tensor 0 pipeline " +
           std::to_string(coordinate) + " data 0)";
  }

  /// Lanes of links stand behind those of ranks.
  int64_t link_of(int64_t source, int direction) const {
    const auto coordinates = static_cast<int64_t>(schedule_.lists.size());
    return layout_.tensor * layout_.data * coordinates + direction * coordinates + source;
  }

  std::string link_name(int64_t source, int direction) const {
    const auto coordinates = static_cast<int64_t>(schedule_.lists.size());
    const int64_t to = (source + (direction == 0 ? 1 : coordinates - 1)) % coordinates;
    return std::string(direction == 0 ? "activations" : "gradients") + " from pipeline " +
           std::to_string(source) + " to " + std::to_string(to);
  }

  const InstructionList& list_of(int64_t coordinate) const {
    return schedule_.lists[static_cast<size_t>(coordinate)];
  }
  const InstructionTime& time_of(int64_t coordinate, size_t index) const {
    return simulation_.coordinates[static_cast<size_t>(coordinate)].instructions[index];
  }

  bool sends(int64_t coordinate, int direction) const {
    const InstructionList& list = list_of(coordinate);
    return std::any_of(list.begin(), list.end(), [&](const Instruction& instruction) {
      return is_send(instruction.operation) && direction_of(instruction.operation) == direction;
    });
  }

  void add(int64_t lane, const Instruction& instruction, double begin, double end) {
    const std::string name = instruction_text(instruction);
    ChromeTrace::Event event;
    event.lane = lane;
    event.name = name;
    event.category = trace_category(instruction.operation);
    event.begin_ns = nanoseconds(begin);
    event.end_ns = nanoseconds(end);
    if (event.end_ns <= event.begin_ns) return;
    event.arguments = JsonObject()
                          .field("micro", instruction.micro)
                          .field("stage", instruction.stage)
                          .field("step", 1)
                          .text();
    trace_.add(event);
  }

  /// What takes no time is left out. The step begins when all coordinates are there.
  void add_instructions(int64_t coordinate) {
    const InstructionList& list = list_of(coordinate);
    for (size_t i = 0; i < list.size(); ++i) {
      InstructionTime time = time_of(coordinate, i);
      if (list[i].operation == Operation::kStep) {
        time.begin = std::max(time.begin, simulation_.step_begin);
      }
      add(rank_of(coordinate), list[i], time.begin, time.end);
    }
  }

  /// On their links: a message follows the one before it.
  void add_messages(int64_t coordinate) {
    if (prices_.hops.empty()) return;
    double arrival[2] = {0, 0};
    const InstructionList& list = list_of(coordinate);
    for (size_t i = 0; i < list.size(); ++i) {
      if (!is_send(list[i].operation)) continue;
      const int direction = direction_of(list[i].operation);
      const auto to = static_cast<size_t>(list[i].stage);
      const double hop =
          direction == 0 ? prices_.hops[to - 1].forward : prices_.hops[to + 1].backward;
      const InstructionTime& time = time_of(coordinate, i);
      const double begin =
          std::max(prices_.is_blocking ? time.begin : time.end, arrival[direction]);
      arrival[direction] = begin + hop;
      add(link_of(coordinate, direction), list[i], begin, arrival[direction]);
    }
  }

  /// The bytes of saved state, shared out evenly among the micro-batches that are alive when the
  /// most are.
  void add_saved_state(int64_t coordinate) {
    const InstructionList& list = list_of(coordinate);
    const auto most = static_cast<double>(std::max<int64_t>(peak_pairs(list), 1));
    const auto bytes =
        static_cast<double>(estimate_.memory[static_cast<size_t>(coordinate)].activations);
    const std::string name = "saved state of rank " + std::to_string(rank_of(coordinate));
    int64_t alive = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      const int64_t change = alive_change(list[i].operation);
      if (change == 0) continue;
      alive += change;
      const InstructionTime& time = time_of(coordinate, i);
      trace_.add_value(name, nanoseconds(change > 0 ? time.begin : time.end), "bytes",
                       std::llround(bytes * static_cast<double>(alive) / most));
    }
  }

  static int64_t peak_pairs(const InstructionList& list) {
    int64_t alive = 0, most = 0;
    for (const Instruction& instruction : list) {
      alive += alive_change(instruction.operation);
      most = std::max(most, alive);
    }
    return most;
  }

  const Estimate& estimate_;
  const LayoutConfig& layout_;
  const Schedule schedule_;
  const SimulationPrices prices_;
  const Simulation simulation_;
  ChromeTrace trace_;
};

}  // namespace

void check_shown_passes(const Job& job, const LayoutConfig& layout) {
  constexpr int64_t kMostShown = int64_t{1} << 19;
  const int64_t passes = micro_batches(job, layout) * layout.pipeline * layout.interleave;
  if (passes <= kMostShown) return;
  throw Error("too_large", "a schedule of so many passes is not written out")
      .with("passes", passes)
      .with("maximum", kMostShown)
      .subsystem("engine/planner");
}

std::string timeline_report(const Job& job, const Estimate& estimate) {
  check_shown_passes(job, estimate.layout);
  return TimelineWriter(job, estimate).text();
}

}  // namespace plait
