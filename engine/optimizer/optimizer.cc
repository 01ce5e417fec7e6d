#include "engine/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/ops/adamw.h"
#include "kernels/ops/span.h"

namespace plait {

Optimizer::Optimizer(const AdamWOptions& options, std::vector<OptimizerUnit> units,
                     std::vector<bool> decays, Device& device)
    : options_(options),
      units_(std::move(units)),
      decays_(std::move(decays)),
      state_(units_.size()),
      updates_(decays_.size(), 0),
      squares_(decays_.size(), 0.0) {
  for (size_t i = 0; i < units_.size(); ++i) {
    State& state = state_[i];
    const Shape shape{units_[i].weights.elements()};
    const auto allocate = [&](Buffer* buffer) {
      *buffer = device.allocate(shape.elements() * dtype_size(DType::kFloat32),
                                MemoryCategory::kOptimizer);
      return buffer->view(DType::kFloat32, shape);
    };
    const bool is_own_master = units_[i].weights.dtype == DType::kFloat32;
    state.master = is_own_master ? units_[i].weights : allocate(&state.master_buffer);
    state.moment1 = allocate(&state.moment1_buffer);
    state.moment2 = allocate(&state.moment2_buffer);
  }
}

void Optimizer::round_weights(OpContext& context) {
  for (size_t i = 0; i < units_.size(); ++i) {
    if (state_[i].master.data == units_[i].weights.data) continue;
    convert_span(context, state_[i].master, units_[i].weights);
  }
}

double Optimizer::sum_squares(OpContext& context) {
  std::fill(squares_.begin(), squares_.end(), 0.0);
  for (const OptimizerUnit& unit : units_) {
    for (const OptimizerSpan& span : unit.spans) {
      squares_[static_cast<size_t>(span.tensor)] +=
          plait::sum_squares(context, unit.gradients.slice_rows(span.first, span.count));
    }
  }
  double sum = 0.0;
  for (double square : squares_) sum += square;
  return sum;
}

int64_t Optimizer::first_nonfinite() const {
  for (size_t i = 0; i < squares_.size(); ++i) {
    if (!std::isfinite(squares_[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

void Optimizer::reset() {
  std::fill(updates_.begin(), updates_.end(), 0);
  for (const State& state : state_) {
    std::fill_n(state.moment1.as<float>(), state.moment1.elements(), 0.0f);
    std::fill_n(state.moment2.as<float>(), state.moment2.elements(), 0.0f);
  }
}

void Optimizer::update(OpContext& context, float gradient_scale, double lr) {
  for (int64_t& count : updates_) ++count;
  for (size_t i = 0; i < units_.size(); ++i) {
    for (const OptimizerSpan& span : units_[i].spans) {
      const auto tensor = static_cast<size_t>(span.tensor);
      const auto n = static_cast<double>(updates_[tensor]);
      AdamW arguments;
      arguments.master = state_[i].master.slice_rows(span.first, span.count);
      arguments.moment1 = state_[i].moment1.slice_rows(span.first, span.count);
      arguments.moment2 = state_[i].moment2.slice_rows(span.first, span.count);
      arguments.gradient = units_[i].gradients.slice_rows(span.first, span.count);
      arguments.weight = units_[i].weights.slice_rows(span.first, span.count);
      arguments.gradient_scale = gradient_scale;
      arguments.lr = static_cast<float>(lr);
      arguments.beta1 = static_cast<float>(options_.beta1);
      arguments.beta2 = static_cast<float>(options_.beta2);
      arguments.epsilon = static_cast<float>(options_.epsilon);
      arguments.decay = decays_[tensor] ? static_cast<float>(options_.weight_decay) : 0.0f;
      arguments.correction1 = static_cast<float>(1.0 - std::pow(options_.beta1, n));
      arguments.correction2 = static_cast<float>(1.0 - std::pow(options_.beta2, n));
      adamw(context, arguments);
    }
  }
}

}  // namespace plait
