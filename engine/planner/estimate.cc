#include "engine/planner/estimate.h"

#include <algorithm>

#include "engine/planner/bound.h"
#include "engine/planner/flops.h"
#include "engine/planner/rank_share.h"
#include "engine/planner/stage_prices.h"

namespace plait {
namespace {

/// What the walks of a layout's schedule say. Each is the last end over all coordinates.
struct WalkTimes {
  double ideal = 0;   ///< of the passes, messages and data axis taking no time
  double passes = 0;  ///< of the passes, the data axis taking no time
  double whole = 0;   ///< of passes and reductions
};

WalkTimes walk_times(const Schedule& schedule, SimulationPrices prices) {
  WalkTimes times;
  prices.keeps_times = false;
  const Simulation whole = simulate(schedule, prices);
  times.whole = whole.step_begin;
  times.passes = whole.passes_end;
  const bool is_held = schedule.shape.zero >= 2 || prices.reduce_place == ReducePlace::kInList;
  if (!prices.data.empty() && is_held) {
    prices.data.clear();
    times.passes = simulate(schedule, prices).passes_end;
  }
  times.ideal = times.passes;
  if (prices.hops.empty()) return times;
  prices.data.clear();
  prices.hops.clear();
  times.ideal = simulate(schedule, prices).passes_end;
  return times;
}

/// Of a coordinate; what all have alike is the same in each.
StepParts coordinate_parts(const Job& job, const Estimate& estimate, const WalkTimes& walks,
                           int64_t coordinate) {
  const LayoutConfig& layout = estimate.layout;
  const auto m = static_cast<double>(micro_batches(job, layout));
  const bool is_split = layout.schedule == ScheduleChoice::kZeroBubble;
  StepParts parts;
  for (int64_t chunk = 0; chunk < layout.interleave; ++chunk) {
    const StageTimes& stage =
        estimate.stages[static_cast<size_t>(chunk * layout.pipeline + coordinate)];
    const double backward =
        is_split ? stage.price.backward_input + stage.price.backward_weight : stage.price.backward;
    parts.forward += m * (stage.price.forward - stage.tensor_forward);
    parts.backward += m * (backward - stage.tensor_backward);
    parts.replay += m * stage.replay;
    parts.tensor += m * (stage.tensor_forward + stage.tensor_backward);
  }
  parts.bubble = walks.ideal - parts.forward - parts.backward - parts.tensor;
  parts.pipeline = walks.passes - walks.ideal;
  parts.data = walks.whole - walks.passes + estimate.step.slices + estimate.step.gathers;
  parts.tied = estimate.step.tied;
  parts.optimizer = estimate.step.optimizer;
  parts.host = estimate.step.host;
  return parts;
}

double busy_seconds(const StepParts& parts) {
  return parts.forward + parts.backward + parts.tensor;
}

void fill_rates(const Job& job, Estimate* estimate) {
  const double rate = estimate->step_seconds * job.hardware.peak(job.precision.compute) *
                      static_cast<double>(job.world);
  estimate->tokens_per_second = job.step_tokens() / estimate->step_seconds;
  estimate->model_share = estimate->flops.model / rate;
  estimate->hardware_share = estimate->flops.hardware / rate;
}

}  // namespace

StepFlops step_flops(const Job& job, const LayoutConfig& layout) {
  const int64_t sequence = job.train.sequence_length;
  const auto s = static_cast<double>(sequence), l = static_cast<double>(job.model.layers);
  const double attention = 4 * s * s * static_cast<double>(job.model.heads * job.model.head_size);
  const double layers = l * layer_flops(job.model, sequence);
  const auto batch = static_cast<double>(job.train.global_batch);
  StepFlops flops;
  flops.model = 3 * batch * (layers + head_flops(job.model, sequence));
  flops.causal = flops.model - 1.5 * batch * l * attention;
  flops.hardware = flops.model;
  switch (layout.recompute) {
    case RecomputeChoice::kNone:
      break;
    case RecomputeChoice::kSelective:
      if (!job.profile.has_fused_attention) flops.hardware += batch * l * attention;
      break;
    case RecomputeChoice::kFull:
      if (layout.schedule != ScheduleChoice::kZeroBubble) flops.hardware += batch * layers;
      break;
  }
  return flops;
}

Estimate price(const Job& job, const LayoutConfig& layout) {
  Estimate estimate;
  estimate.layout = layout;
  estimate.stages = price_stages(job, layout);
  estimate.step = price_step(job, layout, &estimate.stages);
  estimate.flops = step_flops(job, layout);
  estimate.ideal_bubble_share = static_cast<double>(layout.pipeline - 1) /
                                static_cast<double>(layout.interleave * micro_batches(job, layout));
  estimate.bound_seconds = bound_seconds(job, estimate);
  estimate.memory.reserve(static_cast<size_t>(layout.pipeline));
  for (int64_t coordinate = 0; coordinate < layout.pipeline; ++coordinate) {
    estimate.memory.push_back(rank_memory(job, layout, coordinate));
    const auto fullest = static_cast<size_t>(estimate.fullest);
    if (estimate.memory.back().total() > estimate.memory[fullest].total()) {
      estimate.fullest = coordinate;
    }
  }
  return estimate;
}

SimulationPrices simulation_prices(const Job& job, const Estimate& estimate) {
  SimulationPrices prices;
  const bool has_hops = estimate.layout.pipeline > 1, has_data = estimate.layout.data > 1;
  for (const StageTimes& stage : estimate.stages) {
    prices.stages.push_back(stage.price);
    if (has_hops) prices.hops.push_back(stage.hops);
    if (has_data) prices.data.push_back(stage.data);
  }
  const Profile& profile = job.profile;
  prices.is_blocking = !profile.has_lanes;
  if (estimate.layout.zero >= 2) {
    prices.reduce_place = estimate.layout.overlap ? ReducePlace::kInsidePass : ReducePlace::kInList;
  } else if (!profile.blocks_reductions) {
    prices.reduce_place =
        profile.overlaps_reductions ? ReducePlace::kInsidePass : ReducePlace::kAfterPasses;
  }
  prices.gathers_ahead = profile.gather_bytes_per_second > 0;
  prices.overlap_exponent = job.hardware.overlap_exponent;
  prices.step_seconds = estimate.step.whole() - estimate.step.gathers;
  return prices;
}

void simulate(const Job& job, const Schedule& schedule, Estimate* estimate) {
  const WalkTimes walks = walk_times(schedule, simulation_prices(job, *estimate));
  estimate->step_seconds = walks.whole + estimate->step.whole();
  estimate->coordinates.clear();
  size_t busiest = 0;
  for (int64_t coordinate = 0; coordinate < estimate->layout.pipeline; ++coordinate) {
    estimate->coordinates.push_back(coordinate_parts(job, *estimate, walks, coordinate));
    if (busy_seconds(estimate->coordinates.back()) > busy_seconds(estimate->coordinates[busiest])) {
      busiest = static_cast<size_t>(coordinate);
    }
  }
  estimate->parts = estimate->coordinates[busiest];
  estimate->bubble_share = estimate->parts.bubble / estimate->step_seconds;
  fill_rates(job, estimate);
}

void simulate(const Job& job, Estimate* estimate) {
  simulate(job, layout_schedule(job, estimate->layout), estimate);
}

Estimate estimate(const Job& job, const LayoutConfig& layout) {
  Estimate result = price(job, layout);
  simulate(job, &result);
  return result;
}

Schedule layout_schedule(const Job& job, const LayoutConfig& layout) {
  return make_schedule(schedule_shape(job, layout));
}

}  // namespace plait
