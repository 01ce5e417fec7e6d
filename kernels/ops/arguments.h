// Checks that every op makes of its arguments, and the choice of an implementation. All violations
// are INTERNAL/invariant and name the op: what a user wrote was checked long before.
#pragma once

#include <vector>

#include "kernels/ops/context.h"

namespace plait {

/// One op call under inspection.
class Arguments {
 public:
  /// `op` is the op's name, with static storage duration.
  Arguments(const char* op, const OpContext& context);

  void require(bool condition, const char* what) const;
  /// `view` is there and has this dtype and shape.
  void tensor(const char* name, const TensorView& view, DType dtype, const Shape& shape) const;
  /// As `tensor`, or the view is absent.
  void optional(const char* name, const TensorView& view, DType dtype, const Shape& shape) const;
  /// `view` is there, has `dims` dims, all positive, and a floating dtype.
  void floating(const char* name, const TensorView& view, int dims) const;
  /// `dtype` is `compute` or float32.
  void wide_or(const char* name, DType dtype, DType compute) const;
  /// Fails in a real pass if the pointer is null.
  void pointer(const char* name, const void* pointer) const;
  /// Each of the values is in [first, end). Looked at in real passes only; null passes.
  void indices(const char* name, const int32_t* values, int64_t count, int64_t first,
               int64_t end) const;
  /// The two share no byte. Looked at in real passes only.
  void disjoint(const TensorView& a, const TensorView& b, const char* what) const;
  /// The two are the same memory or share no byte. Looked at in real passes only.
  void same_or_disjoint(const TensorView& a, const TensorView& b, const char* what) const;

 private:
  const char* op_;
  bool is_measuring_;
};

/// The first in `list` for which `supports` holds.
template <class Kernel, class Supports>
const Kernel& pick(const char* op, const std::vector<const Kernel*>& list, Supports supports) {
  for (const Kernel* kernel : list) {
    if (supports(*kernel)) return *kernel;
  }
  throw Error("invariant", "no implementation supports this call")
      .with("op", op)
      .subsystem("kernels/ops");
}

}  // namespace plait
