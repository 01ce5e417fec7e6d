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

void Unit::allocate(Device& device, DType dtype, int64_t shards) {
  dtype_ = dtype;
  elements_ = round_up(elements_, kUnitAlignment * shards);
  weights_ = device.allocate(elements_ * dtype_size(dtype), MemoryCategory::kWeights);
  gradients_ = device.allocate(elements_ * dtype_size(DType::kFloat32), MemoryCategory::kGradients);
  for (const auto& parameter : parameters_) {
    parameter->weight =
        weights_.view(dtype, parameter->shape, parameter->offset * dtype_size(dtype));
    parameter->gradient = gradients_.view(DType::kFloat32, parameter->shape,
                                          parameter->offset * dtype_size(DType::kFloat32));
  }
  if (second_ == nullptr) return;
  second_gradients_ = device.allocate(second_->shape.elements() * dtype_size(DType::kFloat32),
                                      MemoryCategory::kGradients);
  second_->second_gradient = second_gradients_.view(DType::kFloat32, second_->shape);
}

Segment whole_segment(std::string name, const Shape& shape, int64_t first_row,
                      InitialValue initial) {
  return {std::move(name), shape, Box::whole(shape), first_row, initial};
}

}  // namespace plait
