#include "kernels/ops/arguments.h"

#include <cstdint>

namespace plait {
namespace {

bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

bool overlap(const TensorView& a, const TensorView& b) {
  if (!a.is_present() || !b.is_present()) return false;
  const auto first_a = reinterpret_cast<uintptr_t>(a.data);
  const auto first_b = reinterpret_cast<uintptr_t>(b.data);
  return first_a < first_b + static_cast<uintptr_t>(b.bytes()) &&
         first_b < first_a + static_cast<uintptr_t>(a.bytes());
}

std::string describe(DType dtype, const Shape& shape) { return dtype_name(dtype) + shape.text(); }

}  // namespace

Arguments::Arguments(const char* op, const OpContext& context)
    : op_(op), is_measuring_(context.is_measuring()) {}

void Arguments::require(bool condition, const char* what) const {
  if (condition) return;
  throw Error("invariant", what).with("op", op_).subsystem("kernels/ops");
}

void Arguments::tensor(const char* name, const TensorView& view, DType dtype,
                       const Shape& shape) const {
  if (view.is_present() && view.dtype == dtype && view.shape == shape) return;
  throw Error("invariant", "a tensor is not what the op needs")
      .with("op", op_)
      .with("tensor", name)
      .with("want", describe(dtype, shape))
      .with("got", view.is_present() ? describe(view.dtype, view.shape) : std::string("absent"))
      .subsystem("kernels/ops");
}

void Arguments::optional(const char* name, const TensorView& view, DType dtype,
                         const Shape& shape) const {
  if (view.is_present()) tensor(name, view, dtype, shape);
}

void Arguments::floating(const char* name, const TensorView& view, int dims) const {
  bool is_good = view.is_present() && view.shape.dims() == dims && is_floating(view.dtype);
  for (int i = 0; is_good && i < dims; ++i) is_good = view.shape[i] > 0;
  if (is_good) return;
  throw Error("invariant", "a tensor is not what the op needs")
      .with("op", op_)
      .with("tensor", name)
      .with("want_dims", dims)
      .with("got", view.is_present() ? describe(view.dtype, view.shape) : std::string("absent"))
      .subsystem("kernels/ops");
}

void Arguments::wide_or(const char* name, DType dtype, DType compute) const {
  if (dtype == compute || dtype == DType::kFloat32) return;
  throw Error("invariant", "a tensor is neither of the compute dtype nor float32")
      .with("op", op_)
      .with("tensor", name)
      .with("want", dtype_name(compute))
      .with("got", dtype_name(dtype))
      .subsystem("kernels/ops");
}

void Arguments::pointer(const char* name, const void* pointer) const {
  if (pointer != nullptr || is_measuring_) return;
  throw Error("invariant", "an argument is missing")
      .with("op", op_)
      .with("argument", name)
      .subsystem("kernels/ops");
}

void Arguments::indices(const char* name, const int32_t* values, int64_t count, int64_t first,
                        int64_t end) const {
  if (values == nullptr || is_measuring_) return;
  for (int64_t i = 0; i < count; ++i) {
    if (values[i] >= first && values[i] < end) continue;
    throw Error("invariant", "an index is out of range")
        .with("op", op_)
        .with("argument", name)
        .with("row", i)
        .with("got", values[i])
        .with("first", first)
        .with("end", end)
        .subsystem("kernels/ops");
  }
}

void Arguments::disjoint(const TensorView& a, const TensorView& b, const char* what) const {
  require(is_measuring_ || !overlap(a, b), what);
}

void Arguments::same_or_disjoint(const TensorView& a, const TensorView& b, const char* what) const {
  const bool is_same = a.data == b.data && a.bytes() == b.bytes();
  require(is_measuring_ || is_same || !overlap(a, b), what);
}

}  // namespace plait
