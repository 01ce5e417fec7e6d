// Runs a schedule in virtual time. No other input than the schedule and the prices of its
// instructions: the order is that of the very lists that ranks run.
//
// Each coordinate takes the instructions of its list one after the other. A message arrives its hop
// after it was sent and after the message before it on its lane; a receive ends when its message
// has arrived. With lanes, a send ends at once where the lane has room, else when the receiver has
// taken the message that gives it room; where transfers block, it ends when the message arrives.
//
// Data axis: in ZeRO 2 and 3 gathers and reductions are part of the passes that need or make what
// they move. In ZeRO 0 and 1 a reduction holds its coordinate, or runs on a lane beside computing
// until the step. The step begins on all coordinates when all reductions are in.
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

/// Seconds of the messages that a stage sends.
struct StageHops {
  double forward = 0;   ///< to σ + 1
  double backward = 0;  ///< to σ − 1
};

/// Seconds of a stage's transfers over the data axis.
struct StageData {
  double gather_forward = 0;   ///< weights that a forward pass reads, ZeRO 3
  double gather_backward = 0;  ///< the same of a backward pass
  double reduce = 0;           ///< gradients, each `reduce`
  double gather_after = 0;     ///< after the step, ZeRO 1 and 2
};

enum class ReducePlace {
  kInList,       ///< the coordinate waits
  kAfterPasses,  ///< the coordinate waits after its last pass
  kInsidePass,  ///< on a lane, from the begin of the pass before it on; ZeRO 2, 3: beside that pass
};

struct SimulationPrices {
  std::vector<StagePrice> stages;  ///< [p·v], by σ
  std::vector<StageHops> hops;     ///< the same; empty: messages take no time
  std::vector<StageData> data;     ///< the same; empty: nothing crosses the data axis
  bool is_blocking = false;        ///< computing waits for the arrival of what it sends
  int64_t lane_depth = 1;          ///< messages that a lane holds
  ReducePlace reduce_place = ReducePlace::kInList;
  bool gathers_ahead = false;   ///< weights come beside the pass that reads them
  double overlap_exponent = 3;  ///< of two activities at once: (xʳ + yʳ)^(1/r)
  double step_seconds = 0;      ///< of `step`, once it begins
  bool keeps_times = true;      ///< whether CoordinateTimes::instructions are wanted
};

/// When a coordinate came to an instruction and when it went on, in seconds from the start.
struct InstructionTime {
  double begin = 0;
  double end = 0;
};

struct CoordinateTimes {
  std::vector<InstructionTime> instructions;  ///< as in the coordinate's list, or none
  double busy = 0;                            ///< seconds in forward and backward passes
};

struct Simulation {
  std::vector<CoordinateTimes> coordinates;
  double passes_end = 0;  ///< all coordinates have passed on their last result
  double step_begin = 0;  ///< all reductions are in
  double makespan = 0;    ///< end of the last instruction
  double idle_share = 0;  ///< of the coordinates' time together up to passes_end, without work
};

/// `schedule` is a validated one. Throws `invariant` naming the instructions when some wait for
/// each other for ever, or when the prices are not those of the schedule's stages.
Simulation simulate(const Schedule& schedule, const SimulationPrices& prices);

/// (xʳ + yʳ)^(1/r): seconds of two activities that run at once.
double overlapped_seconds(double x, double y, double exponent);

}  // namespace plait
