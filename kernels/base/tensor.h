// Shapes and non-owning views of contiguous row-major tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/base/dtype.h"

namespace plait {

/// Up to four dims, outermost first.
class Shape {
 public:
  static constexpr int kMaxDims = 4;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);

  int dims() const { return dims_; }
  int64_t operator[](int dim) const { return size_[dim]; }
  int64_t elements() const;  ///< 1 for zero dims
  bool operator==(const Shape& other) const = default;
  std::string text() const;  ///< "[2,3]"

 private:
  int64_t size_[kMaxDims] = {0, 0, 0, 0};
  int dims_ = 0;
};

/// A view: data is borrowed, row-major, without gaps. A view without data is "absent".
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;

  bool is_present() const { return data != nullptr; }
  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * dtype_size(dtype); }
  int64_t rows() const { return shape[0]; }
  int64_t columns() const { return shape[1]; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// Rows [first, first + count) of a tensor of at least one dim.
  TensorView slice_rows(int64_t first, int64_t count) const;
  /// The same elements under another shape of as many elements or fewer.
  TensorView reshaped(const Shape& to) const { return {data, dtype, to}; }
};

}  // namespace plait
