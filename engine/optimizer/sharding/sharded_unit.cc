#include "engine/optimizer/sharding/sharded_unit.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/mutation.h"

namespace plait {
namespace {

Buffer floats(Device& device, int64_t count, MemoryCategory category) {
  return device.allocate(count * dtype_size(DType::kFloat32), category);
}

}  // namespace

UnitRange intersect(UnitRange a, UnitRange b) {
  const int64_t first = std::max(a.first, b.first);
  return {first, std::min(a.first + a.count, b.first + b.count) - first};
}

Wholeness Wholeness::of(int64_t zero, int64_t shards) {
  check(zero >= 0 && zero <= 3, "the ZeRO stage is 0, 1, 2 or 3");
  if (shards == 1) return {};
  return {zero < 3, zero < 2, zero < 1};
}

ShardedUnit::ShardedUnit(Unit& unit, const ShardPlan& plan, Device& device)
    : unit_(&unit), plan_(plan) {
  check(unit.elements() % plan.shards == 0, "a unit is sealed for its number of slices");
  const int64_t slice = unit.elements() / plan.shards;
  slice_ = {plan.shard * slice, slice};
  const int64_t weights = plan.whole.weights ? unit.elements() : slice;
  weights_ = device.allocate(weights * dtype_size(unit.dtype()), MemoryCategory::kWeights);
  if (plan.whole.weights) unit.bind_weights(whole_weights());
  const int64_t state = state_range().count;
  if (unit.dtype() == DType::kFloat32) {
    master_ = state_weights();
  } else {
    master_buffer_ = floats(device, state, MemoryCategory::kOptimizer);
    master_ = master_buffer_.view(DType::kFloat32, {state});
  }
  moment1_ = floats(device, state, MemoryCategory::kOptimizer);
  moment2_ = floats(device, state, MemoryCategory::kOptimizer);
  for (GradientUse use : {GradientUse::kFirst, GradientUse::kSecond}) {
    if (!has_use(use)) continue;
    gradients_[static_cast<size_t>(use)] =
        floats(device, gradient_range().count, MemoryCategory::kGradients);
  }
  if (plan.whole.gradients) {
    unit.bind_gradients(gradient(GradientUse::kFirst));
    if (unit.has_second_gradient()) unit.bind_second_gradients(gradient(GradientUse::kSecond));
  }
  slice_fragments_ = fragments(slice_);
  const int64_t late = is_mutated(Mutation::kSliceStartsLate) && plan.shard > 0 ? 64 : 0;
  state_fragments_ = fragments({state_range().first + late, state_range().count - late});
  find_gaps();
}

TensorView ShardedUnit::whole_weights() const {
  return weights_.view(unit_->dtype(), {unit_->elements()});
}

TensorView ShardedUnit::slice_weights() const {
  const int64_t first = plan_.whole.weights ? slice_.first : 0;
  return weights_.view(unit_->dtype(), {slice_.count}, first * dtype_size(unit_->dtype()));
}

TensorView ShardedUnit::state_weights() const {
  return plan_.whole.state ? whole_weights() : slice_weights();
}

TensorView ShardedUnit::gradient(GradientUse use) const {
  if (!has_use(use)) return {};
  return gradients_[static_cast<size_t>(use)].view(DType::kFloat32, {gradient_range().count});
}

TensorView ShardedUnit::slice_gradient(GradientUse use) const {
  const TensorView whole = gradient(use);
  if (!whole.is_present() || !plan_.whole.gradients) return whole;
  return whole.slice_rows(slice_.first, slice_.count);
}

std::vector<Fragment> ShardedUnit::fragments(UnitRange within) const {
  std::vector<Fragment> result;
  for (const auto& parameter : unit_->parameters()) {
    for (const Segment& segment : parameter->segments) {
      const auto tensor = plan_.tensors->find(segment.name);
      if (tensor == plan_.tensors->end()) {
        throw Error("invariant", "a unit holds a logical tensor that the optimizer was not told of")
            .with("tensor", segment.name)
            .subsystem("engine/optimizer");
      }
      const auto [first, count] = parameter->range(segment);
      const UnitRange part = intersect({parameter->offset + first, count}, within);
      if (part.count > 0) result.push_back({tensor->second, part, &segment});
    }
  }
  return result;
}

void ShardedUnit::find_gaps() {
  int64_t end = 0;
  for (const auto& parameter : unit_->parameters()) {
    if (parameter->offset > end) gaps_.push_back({end, parameter->offset - end});
    end = parameter->offset + parameter->shape.elements();
  }
  if (unit_->elements() > end) gaps_.push_back({end, unit_->elements() - end});
}

}  // namespace plait
