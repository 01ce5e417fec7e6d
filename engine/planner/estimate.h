// What one layout costs: time part by part, memory, rates. Pure; any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/planner/job.h"
#include "engine/planner/memory.h"
#include "engine/planner/simulate.h"

namespace plait {

/// Seconds of a rank's step under the names of the metrics lines. They add up to the step.
struct StepParts {
  double forward = 0;
  double backward = 0;  ///< with `replay`
  double replay = 0;    ///< of it, layers run again
  double tensor = 0;    ///< exposed, inside forward and backward no more
  double pipeline = 0;  ///< exposed transfers
  double data = 0;      ///< exposed reductions and gathers
  double tied = 0;      ///< the swap of a tied embedding's gradient
  double optimizer = 0;
  double bubble = 0;
  double host = 0;  ///< overhead of a step

  double communication() const { return tensor + pipeline + data + tied; }
};

/// FLOPs of a step by the three conventions.
struct StepFlops {
  double model = 0;     ///< 3 times the forward pass, attention whole
  double causal = 0;    ///< attention by its causal half
  double hardware = 0;  ///< `model` and what is run again
};
StepFlops step_flops(const Job& job, const LayoutConfig& layout);

/// One virtual stage: prices of its passes and the exposed collectives inside them.
struct StageTimes {
  StagePrice price;
  double replay = 0;           ///< of price.backward, without its collectives
  double tensor_forward = 0;   ///< exposed collectives of price.forward
  double tensor_backward = 0;  ///< of price.backward
  StageHops hops;
  StageData data;
};

/// What follows when the last reduction is in, the same on all ranks but for the gathers.
struct StepTimes {
  double optimizer = 0;  ///< of the rank with most parameters
  double tied = 0;       ///< the two ends bring their gradients of a tied embedding together
  double slices = 0;     ///< gathers of what the optimizer reads, ZeRO 0
  double gathers = 0;    ///< of weights after it, ZeRO 1 and 2, of the rank with most
  double host = 0;

  double whole() const { return optimizer + tied + slices + gathers + host; }
};

struct Estimate {
  LayoutConfig layout;
  double step_seconds = 0;
  double bound_seconds = 0;            ///< no schedule of this layout can be faster
  double ideal_bubble_share = 0;       ///< (p − 1)/(v·m)
  double bubble_share = 0;             ///< of the step
  StepParts parts;                     ///< of the coordinate that computes longest
  std::vector<StepParts> coordinates;  ///< by pipeline coordinate
  std::vector<StageTimes> stages;      ///< by σ
  StepTimes step;
  StepFlops flops;
  double tokens_per_second = 0;
  double model_share = 0;          ///< MFU
  double hardware_share = 0;       ///< HFU
  std::vector<RankMemory> memory;  ///< by pipeline coordinate
  int64_t fullest = 0;             ///< coordinate of the largest total
};

/// Prices alone: stages, memory, FLOPs and bound; no schedule is walked, step_seconds is 0. The
/// layout keeps the rules (engine/planner/rules.h) and may not fit into memory.
Estimate price(const Job& job, const LayoutConfig& layout);

/// Prices of the schedule of a priced layout: what the walk below, and a timeline of it, are made
/// with.
SimulationPrices simulation_prices(const Job& job, const Estimate& estimate);

/// Walks the schedule in virtual time and fills in the rest.
void simulate(const Job& job, Estimate* estimate);
/// The same along a schedule that is there already: layout_schedule's.
void simulate(const Job& job, const Schedule& schedule, Estimate* estimate);

/// `price`, then `simulate`.
Estimate estimate(const Job& job, const LayoutConfig& layout);

/// The schedule that the engine runs for this layout.
Schedule layout_schedule(const Job& job, const LayoutConfig& layout);

}  // namespace plait
