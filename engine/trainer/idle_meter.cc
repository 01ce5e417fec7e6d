#include "engine/trainer/idle_meter.h"

#include <algorithm>

namespace plait {
namespace {

double share(int64_t busy_ns, int64_t whole_ns) {
  if (whole_ns == 0) return 0;
  return 1 - static_cast<double>(busy_ns) / static_cast<double>(whole_ns);
}

double mean_seconds(int64_t ns, int64_t count) {
  return count == 0 ? 0 : static_cast<double>(ns) * 1e-9 / static_cast<double>(count);
}

}  // namespace

IdleMeter::IdleMeter(int64_t ranks, int64_t stages)
    : busy_ns_(static_cast<size_t>(ranks)), stages_(static_cast<size_t>(stages)) {}

IdleMeter::Cost* IdleMeter::cost_of(StageCosts* costs, Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return &costs->forward;
    case Operation::kBackward:
      return &costs->backward;
    case Operation::kBackwardInput:
      return &costs->backward_input;
    case Operation::kBackwardWeight:
      return &costs->backward_weight;
    default:
      return nullptr;
  }
}

void IdleMeter::add(int64_t local, std::span<const TraceEvent> events) {
  for (const TraceEvent& event : events) {
    const auto stage = static_cast<size_t>(event.instruction.stage);
    if (stage >= stages_.size()) continue;
    Cost* cost = cost_of(&stages_[stage], event.instruction.operation);
    if (cost == nullptr) continue;
    const int64_t spent = event.end_ns - event.begin_ns;
    cost->ns += spent;
    ++cost->count;
    busy_ns_[static_cast<size_t>(local)] += spent;
    begin_ns_ = is_open_ ? std::min(begin_ns_, event.begin_ns) : event.begin_ns;
    end_ns_ = is_open_ ? std::max(end_ns_, event.end_ns) : event.end_ns;
    is_open_ = true;
  }
}

void IdleMeter::end_part() {
  if (is_open_) part_ns_ += end_ns_ - begin_ns_;
  is_open_ = false;
}

double IdleMeter::idle_share() const {
  int64_t busy = 0;
  for (const int64_t one : busy_ns_) busy += one;
  return share(busy, part_ns_ * static_cast<int64_t>(busy_ns_.size()));
}

double IdleMeter::idle_share(int64_t local) const { return share(busy_ns(local), part_ns_); }

bool IdleMeter::has_all_stages() const {
  return std::all_of(stages_.begin(), stages_.end(),
                     [](const StageCosts& costs) { return costs.forward.count > 0; });
}

StagePrice IdleMeter::price(const StageCosts& costs) const {
  return {mean_seconds(costs.forward.ns, costs.forward.count),
          mean_seconds(costs.backward.ns, costs.backward.count),
          mean_seconds(costs.backward_input.ns, costs.backward_input.count),
          mean_seconds(costs.backward_weight.ns, costs.backward_weight.count)};
}

double IdleMeter::simulated_share(const Schedule& schedule) const {
  SimulationPrices prices;
  for (const StageCosts& costs : stages_) prices.stages.push_back(price(costs));
  return simulate(schedule, prices).idle_share;
}

double IdleMeter::even_share(const Schedule& schedule) const {
  StageCosts all;
  for (const StageCosts& costs : stages_) {
    for (const auto cost : {&StageCosts::forward, &StageCosts::backward,
                            &StageCosts::backward_input, &StageCosts::backward_weight}) {
      (all.*cost).ns += (costs.*cost).ns;
      (all.*cost).count += (costs.*cost).count;
    }
  }
  SimulationPrices prices;
  prices.stages.assign(stages_.size(), price(all));
  return simulate(schedule, prices).idle_share;
}

}  // namespace plait
