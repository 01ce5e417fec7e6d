// Runs a schedule in virtual time. No other input than the schedule and the prices of its
// instructions: the order is that of the very lists that ranks run.
//
// Each coordinate takes the instructions of its list one after the other. A send ends when the
// lane's previous message was received; the message arrives `message_seconds` later. A receive ends
// when its message has arrived. Gathers, releases, reductions and the step take no time here.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/schedule/schedule.h"

namespace plait {

/// What the instructions of one stage cost, in seconds.
struct StagePrice {
  double forward = 0;
  double backward = 0;
  double backward_input = 0;
  double backward_weight = 0;
};

struct SimulationPrices {
  std::vector<StagePrice> stages;  ///< [p·v], by σ
  double message_seconds = 0;      ///< from the end of a send to the arrival
};

/// When a coordinate came to an instruction and when it went on, in seconds from the start.
struct InstructionTime {
  double begin = 0;
  double end = 0;
};

struct CoordinateTimes {
  std::vector<InstructionTime> instructions;  ///< as in the coordinate's list
  double busy = 0;                            ///< seconds in forward and backward passes
};

struct Simulation {
  std::vector<CoordinateTimes> coordinates;
  double makespan = 0;    ///< end of the last instruction
  double idle_share = 0;  ///< of the coordinates' time together, without work
};

/// `schedule` is a validated one. Throws `invariant` naming the instructions when some wait for
/// each other for ever, or when the prices are not those of the schedule's stages.
Simulation simulate(const Schedule& schedule, const SimulationPrices& prices);

}  // namespace plait
