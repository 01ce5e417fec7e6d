#include "engine/planner/simulate.h"

#include <algorithm>
#include <utility>

#include "engine/schedule/operation.h"
#include "engine/schedule/proof.h"
#include "engine/schedule/walk.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

/// What a lane's one place knows.
struct Lane {
  double arrival = 0;  // of the message sent last
  double receipt = 0;  // of the message received last
};

class Simulator {
 public:
  Simulator(const Schedule& schedule, const SimulationPrices& prices)
      : schedule_(schedule),
        prices_(prices),
        lanes_(2 * schedule.lists.size()),
        now_(schedule.lists.size()) {
    const ScheduleShape& shape = schedule.shape;
    check(static_cast<int64_t>(prices.stages.size()) == shape.pipeline * shape.chunks,
          "every stage of a schedule has a price");
    for (const InstructionList& list : schedule.lists) {
      simulation_.coordinates.push_back({std::vector<InstructionTime>(list.size()), 0});
    }
  }

  Simulation run() {
    Walk walk(schedule_);
    while (const auto place = walk.next()) run_instruction(*place);
    const auto circle = walk.circle();
    if (!circle.empty()) throw deadlock_error(schedule_, {}, circle);
    simulation_.makespan = *std::max_element(now_.begin(), now_.end());
    double busy = 0;
    for (const CoordinateTimes& times : simulation_.coordinates) busy += times.busy;
    const double whole = simulation_.makespan * static_cast<double>(now_.size());
    simulation_.idle_share = whole > 0 ? 1 - busy / whole : 0;
    return std::move(simulation_);
  }

 private:
  void run_instruction(const Walk::Place& place) {
    const auto c = static_cast<size_t>(place.coordinate);
    const Instruction& instruction = schedule_.lists[c][place.index];
    CoordinateTimes& times = simulation_.coordinates[c];
    const double begin = now_[c];
    if (is_send(instruction.operation)) {
      Lane& lane = lane_at(instruction);
      now_[c] = std::max(begin, lane.receipt);
      lane.arrival = now_[c] + prices_.message_seconds;
    } else if (is_receive(instruction.operation)) {
      Lane& lane = lane_at(instruction);
      now_[c] = std::max(begin, lane.arrival);
      lane.receipt = now_[c];
    } else {
      const double price = price_of(instruction);
      now_[c] += price;
      times.busy += price;
    }
    times.instructions[place.index] = {begin, now_[c]};
  }

  Lane& lane_at(const Instruction& message) {
    return lanes_[static_cast<size_t>(lane_of(message, schedule_.shape.pipeline))];
  }

  /// Without a default, so that an operation without a price does not compile cleanly.
  double price_of(const Instruction& instruction) const {
    const StagePrice& price = prices_.stages[static_cast<size_t>(instruction.stage)];
    switch (instruction.operation) {
      case Operation::kForward:
        return price.forward;
      case Operation::kBackward:
        return price.backward;
      case Operation::kBackwardInput:
        return price.backward_input;
      case Operation::kBackwardWeight:
        return price.backward_weight;
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

  const Schedule& schedule_;
  const SimulationPrices& prices_;
  std::vector<Lane> lanes_;
  std::vector<double> now_;  // of each coordinate
  Simulation simulation_;
};

}  // namespace

Simulation simulate(const Schedule& schedule, const SimulationPrices& prices) {
  return Simulator(schedule, prices).run();
}

}  // namespace plait
