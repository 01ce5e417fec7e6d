#include "engine/layers/parameter.h"

#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kUnitAlignment = 64;

int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

}  // namespace

std::pair<int64_t, int64_t> Parameter::range(const Segment& segment) const {
  const int64_t row = shape.dims() == 2 ? shape[1] : 1;
  return {segment.first_row * row, segment.box.elements()};
}

Parameter* Unit::add(const Shape& shape, std::vector<Segment> segments) {
  auto parameter = std::make_unique<Parameter>();
  parameter->shape = shape;
  parameter->segments = std::move(segments);
  parameter->offset = elements_;
  elements_ = round_up(elements_ + shape.elements(), kUnitAlignment);
  parameters_.push_back(std::move(parameter));
  return parameters_.back().get();
}

void Unit::seal(DType dtype, int64_t shards) {
  dtype_ = dtype;
  elements_ = round_up(elements_, kUnitAlignment * shards);
  for (const auto& parameter : parameters_) parameter->weight = {nullptr, dtype, parameter->shape};
}

void Unit::bind_weights(TensorView flat) {
  weights_ = flat;
  for (const auto& parameter : parameters_) {
    parameter->weight =
        flat.slice_rows(parameter->offset, parameter->shape.elements()).reshaped(parameter->shape);
  }
}

void Unit::bind_gradients(TensorView flat) {
  gradients_ = flat;
  for (const auto& parameter : parameters_) {
    parameter->gradient =
        flat.slice_rows(parameter->offset, parameter->shape.elements()).reshaped(parameter->shape);
  }
}

void Unit::bind_second_gradients(TensorView flat) {
  second_gradients_ = flat;
  second_->second_gradient =
      flat.slice_rows(second_->offset, second_->shape.elements()).reshaped(second_->shape);
}

UnitMemory::UnitMemory(Unit& unit, Device& device) {
  const Shape flat{unit.elements()};
  const auto allocate = [&](DType dtype, MemoryCategory category, Buffer* buffer) {
    *buffer = device.allocate(flat.elements() * dtype_size(dtype), category);
    return buffer->view(dtype, flat);
  };
  unit.bind_weights(allocate(unit.dtype(), MemoryCategory::kWeights, &weights_));
  unit.bind_gradients(allocate(DType::kFloat32, MemoryCategory::kGradients, &gradients_));
  if (!unit.has_second_gradient()) return;
  unit.bind_second_gradients(
      allocate(DType::kFloat32, MemoryCategory::kGradients, &second_gradients_));
}

Segment whole_segment(std::string name, const Shape& shape, int64_t first_row,
                      InitialValue initial) {
  return {std::move(name), shape, Box::whole(shape), first_row, initial};
}

}  // namespace plait
