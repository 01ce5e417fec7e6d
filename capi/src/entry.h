// Tensors as entries of a list, and element types as arguments.
#pragma once

#include <cstdint>

#include "capi/src/arguments.h"
#include "kernels/base/dtype.h"
#include "kernels/base/error.h"
#include "kernels/base/tensor.h"
#include "plait/plait.h"

namespace plait {

/// `name` must live as long as the handle that it is asked from.
inline plait_entry_info tensor_info(const char* name, int64_t kind, DType dtype,
                                    const Shape& shape) {
  plait_entry_info info{};
  info.valid = PLAIT_ENTRY_TENSOR;
  info.name = name;
  info.kind = kind;
  info.dtype = static_cast<int64_t>(dtype);
  info.dims = shape.dims();
  int64_t* sizes[] = {&info.shape0, &info.shape1, &info.shape2, &info.shape3};
  for (int dim = 0; dim < Shape::kMaxDims; ++dim) *sizes[dim] = dim < shape.dims() ? shape[dim] : 1;
  info.elements = shape.elements();
  info.text = "";
  return info;
}

/// An element type of the ABI; `argument` for other numbers.
inline DType dtype_argument(int32_t dtype) {
  const auto type = static_cast<DType>(dtype);
  if (dtype_size(type) != 0) return type;
  throw Error("argument", "the number is no element type")
      .with("parameter", "dtype")
      .with("got", dtype)
      .subsystem("capi");
}

}  // namespace plait
