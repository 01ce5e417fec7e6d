#include "engine/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "engine/optimizer/sharding/sharded_unit.h"
#include "engine/optimizer/sharding/step_sums.h"
#include "engine/optimizer/sharding/window_hooks.h"
#include "kernels/base/error.h"
#include "kernels/base/mutation.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/span.h"

namespace plait {
namespace {

constexpr int64_t kTiedTensor = 0;

bool holds_tensor(const Unit& unit, const std::string& name) {
  for (const auto& parameter : unit.parameters()) {
    for (const Segment& segment : parameter->segments) {
      if (segment.name == name) return true;
    }
  }
  return false;
}

}  // namespace

struct Optimizer::State {
  State(const OptimizerOptions& options, const StepGroups& groups,
        const std::vector<std::vector<Unit*>>& units, Device& device);

  const ShardedUnit& unit(int64_t chunk, int64_t unit) const {
    return chunks[static_cast<size_t>(chunk)][static_cast<size_t>(unit)];
  }
  int64_t tensor_count() const { return static_cast<int64_t>(options.tensors.size()); }
  void find_tied();
  /// Stages 1 and 2: the slices of weights come together.
  void gather_weights(OpContext& context, const ShardedUnit& unit) const;

  OptimizerOptions options;
  StepGroups groups;
  Wholeness whole;
  std::unordered_map<std::string, int64_t> tensors;  // name → canonical index
  ShardedChunks chunks;
  std::unique_ptr<WindowHooks> hooks;
  const ShardedUnit* tied = nullptr;  // whose gradient the other end shares
  std::vector<char> sum_scratch;      // of add_up
};

Optimizer::State::State(const OptimizerOptions& options, const StepGroups& groups,
                        const std::vector<std::vector<Unit*>>& units, Device& device)
    : options(options), groups(groups), whole(Wholeness::of(options.zero, groups.data->size())) {
  check(options.tensors.size() == options.decays.size(), "each tensor has its decay");
  for (const std::string& name : options.tensors) {
    tensors.emplace(name, static_cast<int64_t>(tensors.size()));
  }
  const ShardPlan plan{whole, groups.data->size(), groups.data->index(), &tensors};
  for (const auto& list : units) {
    auto& chunk = chunks.emplace_back();
    for (Unit* unit : list) chunk.emplace_back(*unit, plan, device);
  }
  hooks = std::make_unique<WindowHooks>(
      WindowHooks::Options{whole, options.is_overlapping, options.batch_parts}, chunks,
      *groups.data, device);
  if (options.tied_peer >= 0) find_tied();
  sum_scratch.resize(static_cast<size_t>(world_sum_bytes(0) * (largest_group(groups) + 1)));
}

void Optimizer::State::find_tied() {
  check(options.tied_peer != groups.pipeline->index(), "the tied ends lie on two ranks");
  for (const auto& chunk : chunks) {
    for (const ShardedUnit& unit : chunk) {
      if (holds_tensor(unit.unit(), options.tensors[kTiedTensor])) tied = &unit;
    }
  }
  check(tied != nullptr, "both tied ends hold the token embedding");
}

void Optimizer::State::gather_weights(OpContext& context, const ShardedUnit& unit) const {
  if (whole.state || !whole.weights || context.is_measuring()) return;
  if (is_mutated(Mutation::kWeightsNotGathered)) return;
  groups.data->all_gather(unit.slice_weights(), unit.whole_weights());
}

Optimizer::Optimizer(const OptimizerOptions& options, const StepGroups& groups,
                     std::vector<std::vector<Unit*>> chunks, Device& device)
    : state_(std::make_unique<State>(options, groups, chunks, device)),
      updates_(options.tensors.size(), 0) {}

Optimizer::~Optimizer() = default;

UnitHooks& Optimizer::hooks(int64_t) { return *state_->hooks; }

UnitRange Optimizer::state_range(int64_t chunk, int64_t unit) const {
  return state_->unit(chunk, unit).state_range();
}

TensorView Optimizer::master(int64_t chunk, int64_t unit) const {
  return state_->unit(chunk, unit).master();
}

TensorView Optimizer::moment1(int64_t chunk, int64_t unit) const {
  return state_->unit(chunk, unit).moment1();
}

TensorView Optimizer::moment2(int64_t chunk, int64_t unit) const {
  return state_->unit(chunk, unit).moment2();
}

UnitRange Optimizer::weight_range(int64_t chunk, int64_t unit) const {
  return state_->unit(chunk, unit).weight_range();
}

TensorView Optimizer::weights(int64_t chunk, int64_t unit) const {
  return state_->unit(chunk, unit).kept_weights();
}

UnitRange Optimizer::gradient_range(int64_t chunk, int64_t unit) const {
  return state_->unit(chunk, unit).gradient_range();
}

TensorView Optimizer::gradient(int64_t chunk, int64_t unit, GradientUse use) const {
  return state_->unit(chunk, unit).gradient(use);
}

void Optimizer::masters_changed(OpContext& context) {
  state_->hooks->finish(context);
  for (const auto& chunk : state_->chunks) {
    for (const ShardedUnit& unit : chunk) {
      const TensorView master = unit.master(), weights = unit.state_weights();
      if (master.data != weights.data) convert_span(context, master, weights);
      state_->gather_weights(context, unit);
    }
  }
}

void Optimizer::begin_step(int64_t micro_batches) { state_->hooks->begin_step(micro_batches); }

void Optimizer::finish_reductions(OpContext& context) { state_->hooks->finish(context); }

void Optimizer::reduce(OpContext& context, int64_t chunk) {
  state_->hooks->finish(context);
  if (!state_->whole.gradients || context.is_measuring()) return;
  if (is_mutated(Mutation::kDataSumSkipped)) return;
  for (const ShardedUnit& unit : state_->chunks[static_cast<size_t>(chunk)]) {
    for (GradientUse use : {GradientUse::kFirst, GradientUse::kSecond}) {
      if (!unit.has_use(use)) continue;
      state_->hooks->join_parts(context, unit, use);
      state_->groups.data->reduce_scatter(unit.gradient(use), unit.slice_gradient(use));
    }
  }
}

GlobalSums Optimizer::close(OpContext& context, const LocalSums& sums) {
  State& state = *state_;
  state.hooks->finish(context);
  if (!context.is_measuring()) state.hooks->clear_unused();
  sum_partial_segments(context, state.chunks, *state.groups.tensor);
  for (const auto& chunk : state.chunks) {
    for (const ShardedUnit& unit : chunk) {
      if (unit.has_use(GradientUse::kSecond)) sum_tied_uses(context, unit);
    }
  }
  const OptimizerOptions& options = state.options;
  if (state.tied != nullptr) {
    sum_tied_ends(context, *state.tied,
                  {state.groups.pipeline, options.tied_peer, options.is_tied_owner});
  }
  Workspace::Frame frame(context.workspace);
  const int64_t tensors = state.tensor_count();
  double* squares = frame.take<double>(tensors);
  void* scratch = frame.take(world_sum_bytes(tensors) * (largest_group(state.groups) + 1));
  const Counting counting{state.groups.tensor->index(), options.is_tied_owner ? -1 : kTiedTensor};
  sum_squares_by_tensor(context, state.chunks, counting, {squares, tensors});
  if (context.is_measuring()) return {};
  return add_over_world(state.groups, sums, {squares, tensors}, scratch);
}

GlobalSums Optimizer::add_up(const LocalSums& sums) {
  state_->hooks->complete();
  return add_over_world(state_->groups, sums, {nullptr, 0}, state_->sum_scratch.data());
}

void Optimizer::apply(OpContext& context, float gradient_scale, double lr) {
  const bool is_real = !context.is_measuring();
  for (int64_t& count : updates_) count += is_real ? 1 : 0;
  const OptimizerOptions& options = state_->options;
  AdamW arguments;
  arguments.gradient_scale = gradient_scale;
  arguments.lr = static_cast<float>(lr);
  arguments.beta1 = static_cast<float>(options.adamw.beta1);
  arguments.beta2 = static_cast<float>(options.adamw.beta2);
  arguments.epsilon = static_cast<float>(options.adamw.epsilon);
  for (const auto& chunk : state_->chunks) {
    for (const ShardedUnit& unit : chunk) {
      if (state_->whole.state && is_real) {
        state_->groups.data->all_gather(unit.slice_gradient(GradientUse::kFirst),
                                        unit.gradient(GradientUse::kFirst));
      }
      update(context, unit, arguments);
    }
  }
}

void Optimizer::update(OpContext& context, const ShardedUnit& unit, AdamW arguments) const {
  const int64_t first = unit.state_range().first;
  const OptimizerOptions& options = state_->options;
  const TensorView gradient = state_->whole.state ? unit.gradient(GradientUse::kFirst)
                                                  : unit.slice_gradient(GradientUse::kFirst);
  for (const Fragment& fragment : unit.state_fragments()) {
    const auto tensor = static_cast<size_t>(fragment.tensor);
    const auto part = [&](const TensorView& flat) {
      return flat.slice_rows(fragment.range.first - first, fragment.range.count);
    };
    const auto n = static_cast<double>(std::max<int64_t>(updates_[tensor], 1));
    arguments.master = part(unit.master());
    arguments.moment1 = part(unit.moment1());
    arguments.moment2 = part(unit.moment2());
    arguments.gradient = part(gradient);
    arguments.weight = part(unit.state_weights());
    arguments.decay =
        options.decays[tensor] ? static_cast<float>(options.adamw.weight_decay) : 0.0f;
    arguments.correction1 = static_cast<float>(1.0 - std::pow(options.adamw.beta1, n));
    arguments.correction2 = static_cast<float>(1.0 - std::pow(options.adamw.beta2, n));
    adamw(context, arguments);
  }
}

void Optimizer::gather(OpContext& context, int64_t chunk) {
  for (const ShardedUnit& unit : state_->chunks[static_cast<size_t>(chunk)]) {
    state_->gather_weights(context, unit);
  }
}

void Optimizer::reset() {
  std::fill(updates_.begin(), updates_.end(), 0);
  for (const auto& chunk : state_->chunks) {
    for (const ShardedUnit& unit : chunk) {
      for (const TensorView& moment : {unit.moment1(), unit.moment2()}) {
        std::memset(moment.data, 0, static_cast<size_t>(moment.bytes()));
      }
    }
  }
}

}  // namespace plait
