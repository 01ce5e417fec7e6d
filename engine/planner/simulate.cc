#include "engine/planner/simulate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/schedule/operation.h"
#include "engine/schedule/proof.h"
#include "engine/schedule/walk.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

/// Messages from one coordinate to another in one direction. The walk takes a message before it
/// sends the next one, so the last arrival is that of the message that is taken.
struct MessageLane {
  double arrival = 0;  // of the message sent last
  int64_t sent = 0, taken = 0;
};

/// A reduction on the data lane of a coordinate.
struct LaneReduction {
  double begin = 0, seconds = 0;
};

/// Where a coordinate stands.
struct CoordinateState {
  double now = 0;
  double pass_begin = 0;                  // of its last pass
  double after_passes = 0;                // seconds of reductions
  double step_begin = 0;                  // its reductions are in
  std::vector<LaneReduction> reductions;  // on its lane
};

/// When the lane is through: each reduction follows those before it, and from its begin to `end`
/// the coordinate computes beside it and what follows it.
double lane_end(const std::vector<LaneReduction>& reductions, double end, double exponent) {
  double last = end, behind = 0;
  for (size_t i = reductions.size(); i-- > 0;) {
    behind += reductions[i].seconds;
    const double begin = reductions[i].begin;
    last = std::max(last, begin + overlapped_seconds(behind, end - begin, exponent));
  }
  return last;
}

class Simulator {
 public:
  Simulator(const Schedule& schedule, const SimulationPrices& prices)
      : schedule_(schedule),
        prices_(prices),
        passes_(prices.stages),
        lanes_(2 * schedule.lists.size()),
        taken_(lanes_.size() * static_cast<size_t>(prices.lane_depth)),
        states_(schedule.lists.size()) {
    const auto stages = static_cast<size_t>(schedule.shape.pipeline * schedule.shape.chunks);
    check(prices.stages.size() == stages, "every stage of a schedule has a price");
    check(prices.hops.empty() || prices.hops.size() == stages, "every stage has its hops");
    check(prices.data.empty() || prices.data.size() == stages, "every stage has its data");
    check(prices.lane_depth >= 1, "a lane has room for a message");
    if (!prices.data.empty()) add_data_to_passes();
    for (const InstructionList& list : schedule.lists) {
      const size_t kept = prices.keeps_times ? list.size() : 0;
      simulation_.coordinates.push_back({std::vector<InstructionTime>(kept), 0});
    }
  }

  Simulation run() {
    Walk walk(schedule_);
    while (const auto place = walk.next()) run_instruction(*place);
    const auto circle = walk.circle();
    if (!circle.empty()) throw deadlock_error(schedule_, {}, circle);
    run_step();
    double busy = 0;
    for (const CoordinateTimes& times : simulation_.coordinates) busy += times.busy;
    const double whole = simulation_.passes_end * static_cast<double>(states_.size());
    simulation_.idle_share = whole > 0 ? 1 - busy / whole : 0;
    return std::move(simulation_);
  }

 private:
  /// What ZeRO 2 and 3 add to every pass.
  void add_data_to_passes() {
    const int64_t zero = schedule_.shape.zero;
    if (zero < 2) return;
    for (size_t stage = 0; stage < passes_.size(); ++stage) {
      StagePrice& pass = passes_[stage];
      const StageData& data = prices_.data[stage];
      const double before_forward = zero == 3 ? data.gather_forward : 0;
      const double before_backward = zero == 3 ? data.gather_backward : 0;
      const bool is_beside = prices_.reduce_place == ReducePlace::kInsidePass;
      const double ahead = prices_.gathers_ahead ? before_backward : 0;
      const double beside = ahead + (is_beside ? data.reduce : 0);
      const double held = before_backward - ahead + (is_beside ? 0 : data.reduce);
      pass.forward = prices_.gathers_ahead ? both(pass.forward, before_forward)
                                           : pass.forward + before_forward;
      pass.backward = both(pass.backward, beside) + held;
    }
  }

  double both(double x, double y) const {
    return overlapped_seconds(x, y, prices_.overlap_exponent);
  }

  void run_instruction(const Walk::Place& place) {
    const auto c = static_cast<size_t>(place.coordinate);
    const Instruction& instruction = schedule_.lists[c][place.index];
    CoordinateState& state = states_[c];
    const double begin = state.now;
    switch (instruction.operation) {
      case Operation::kForward:
        run_pass(c, pass_of(instruction).forward);
        break;
      case Operation::kBackward:
        run_pass(c, pass_of(instruction).backward);
        break;
      case Operation::kBackwardInput:
        run_pass(c, pass_of(instruction).backward_input);
        break;
      case Operation::kBackwardWeight:
        run_pass(c, pass_of(instruction).backward_weight);
        break;
      case Operation::kSendForward:
      case Operation::kSendBackward:
        send(instruction, &state);
        break;
      case Operation::kReceiveForward:
      case Operation::kReceiveBackward:
        receive(instruction, &state);
        break;
      case Operation::kReduce:
        reduce(instruction, &state);
        break;
      case Operation::kStep:
        end_passes(&state);
        break;
      case Operation::kGather:  // of ZeRO 3; those after the step are timed with it
      case Operation::kRelease:
        break;
    }
    if (!prices_.keeps_times) return;
    simulation_.coordinates[c].instructions[place.index] = {begin, state.now};
  }

  const StagePrice& pass_of(const Instruction& instruction) const {
    return passes_[static_cast<size_t>(instruction.stage)];
  }

  void run_pass(size_t coordinate, double seconds) {
    CoordinateState& state = states_[coordinate];
    state.pass_begin = state.now;
    state.now += seconds;
    simulation_.coordinates[coordinate].busy += seconds;
  }

  void send(const Instruction& message, CoordinateState* state) {
    const auto number = static_cast<size_t>(lane_of(message, schedule_.shape.pipeline));
    MessageLane& lane = lanes_[number];
    if (!prices_.is_blocking) state->now = std::max(state->now, taken(number, lane.sent));
    lane.arrival = std::max(state->now, lane.arrival) + hop_of(message);
    ++lane.sent;
    if (prices_.is_blocking) state->now = lane.arrival;
  }

  void receive(const Instruction& message, CoordinateState* state) {
    const auto number = static_cast<size_t>(lane_of(message, schedule_.shape.pipeline));
    MessageLane& lane = lanes_[number];
    state->now = std::max(state->now, lane.arrival);
    taken(number, lane.taken++) = state->now;
  }

  /// When the message was taken that had the place of the lane's message `count`.
  double& taken(size_t lane, int64_t count) {
    return taken_[lane * static_cast<size_t>(prices_.lane_depth) +
                  static_cast<size_t>(count % prices_.lane_depth)];
  }

  /// A message is named by the stage that it goes to.
  double hop_of(const Instruction& message) const {
    if (prices_.hops.empty()) return 0;
    const auto to = static_cast<size_t>(message.stage);
    return direction_of(message.operation) == 0 ? prices_.hops[to - 1].forward
                                                : prices_.hops[to + 1].backward;
  }

  void reduce(const Instruction& instruction, CoordinateState* state) {
    if (prices_.data.empty() || schedule_.shape.zero >= 2) return;
    const double seconds = prices_.data[static_cast<size_t>(instruction.stage)].reduce;
    switch (prices_.reduce_place) {
      case ReducePlace::kInList:
        state->now += seconds;
        break;
      case ReducePlace::kAfterPasses:
        state->after_passes += seconds;
        break;
      case ReducePlace::kInsidePass:
        state->reductions.push_back({state->pass_begin, seconds});
        break;
    }
  }

  void end_passes(CoordinateState* state) {
    state->step_begin =
        lane_end(state->reductions, state->now, prices_.overlap_exponent) + state->after_passes;
  }

  /// Step and gathers after it, which nothing but the slowest coordinate holds back.
  void run_step() {
    for (const CoordinateState& state : states_) {
      simulation_.passes_end = std::max(simulation_.passes_end, state.now);
      simulation_.step_begin = std::max(simulation_.step_begin, state.step_begin);
    }
    simulation_.step_begin = std::max(simulation_.step_begin, simulation_.passes_end);
    simulation_.makespan = simulation_.step_begin;
    for (size_t c = 0; c < states_.size(); ++c) {
      const InstructionList& list = schedule_.lists[c];
      std::vector<InstructionTime>& times = simulation_.coordinates[c].instructions;
      size_t first = list.size();
      while (first > 0 && list[first - 1].operation == Operation::kGather) --first;
      if (first == 0 || list[first - 1].operation != Operation::kStep) continue;
      double now = simulation_.step_begin + prices_.step_seconds;
      if (prices_.keeps_times) times[first - 1].end = now;
      for (size_t i = first; i < list.size(); ++i) {
        const double begin = now;
        if (!prices_.data.empty()) {
          now += prices_.data[static_cast<size_t>(list[i].stage)].gather_after;
        }
        if (prices_.keeps_times) times[i] = {begin, now};
      }
      simulation_.makespan = std::max(simulation_.makespan, now);
    }
  }

  const Schedule& schedule_;
  const SimulationPrices& prices_;
  std::vector<StagePrice> passes_;  // with what the data axis adds
  std::vector<MessageLane> lanes_;
  std::vector<double> taken_;  // of each lane's last messages
  std::vector<CoordinateState> states_;
  Simulation simulation_;
};

}  // namespace

double overlapped_seconds(double x, double y, double exponent) {
  const double longer = std::max(x, y), shorter = std::min(x, y);
  if (shorter <= 0) return longer;
  return longer * std::pow(1 + std::pow(shorter / longer, exponent), 1 / exponent);
}

Simulation simulate(const Schedule& schedule, const SimulationPrices& prices) {
  return Simulator(schedule, prices).run();
}

}  // namespace plait
