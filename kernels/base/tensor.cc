#include "kernels/base/tensor.h"

#include "kernels/base/error.h"

namespace plait {

Shape::Shape(std::initializer_list<int64_t> dims) {
  check(dims.size() <= kMaxDims, "a shape has at most four dims");
  for (int64_t size : dims) size_[dims_++] = size;
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int i = 0; i < dims_; ++i) product *= size_[i];
  return product;
}

std::string Shape::text() const {
  std::string out = "[";
  for (int i = 0; i < dims_; ++i) out += (i ? "," : "") + std::to_string(size_[i]);
  return out + "]";
}

TensorView TensorView::slice_rows(int64_t first, int64_t count) const {
  const int64_t row = elements() / shape[0];
  TensorView view = *this;
  view.data = static_cast<char*>(data) + first * row * dtype_size(dtype);
  switch (shape.dims()) {
    case 1:
      view.shape = {count};
      break;
    case 2:
      view.shape = {count, shape[1]};
      break;
    case 3:
      view.shape = {count, shape[1], shape[2]};
      break;
    default:
      view.shape = {count, shape[1], shape[2], shape[3]};
      break;
  }
  return view;
}

}  // namespace plait
