#include "kernels/ops/activation.h"

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {
namespace {

const ActivationKernel& activation_kernel(const char* op, const OpContext& context, DType dtype) {
  const IsaLevel isa = context.device.isa();
  return pick(op, context.kernels.activation,
              [&](const ActivationKernel& kernel) { return kernel.supports(dtype, isa); });
}

/// Shape of y for a u of this kind.
Shape output_shape(const Arguments& check, ActivationKind kind, const TensorView& u) {
  check.floating("u", u, 2);
  if (kind == ActivationKind::kGelu) return u.shape;
  check.require(u.columns() % 2 == 0, "SwiGLU's input has an even number of columns");
  return {u.rows(), u.columns() / 2};
}

}  // namespace

void activation_forward(OpContext& context, const ActivationForward& arguments) {
  constexpr const char* kOp = "activation_forward";
  const Arguments check(kOp, context);
  const TensorView& u = arguments.u;
  check.tensor("y", arguments.y, u.dtype, output_shape(check, arguments.kind, u));
  check.disjoint(u, arguments.y, "y and u are different memory");
  context.check_aborted();
  const ActivationKernel& kernel = activation_kernel(kOp, context, u.dtype);
  if (!context.is_measuring()) kernel.forward(context, arguments);
}

void activation_backward(OpContext& context, const ActivationBackward& arguments) {
  constexpr const char* kOp = "activation_backward";
  const Arguments check(kOp, context);
  const TensorView& u = arguments.u;
  check.tensor("grad_y", arguments.grad_y, u.dtype, output_shape(check, arguments.kind, u));
  check.tensor("grad_u", arguments.grad_u, u.dtype, u.shape);
  check.disjoint(u, arguments.grad_u, "grad_u and u are different memory");
  if (arguments.kind == ActivationKind::kGelu) {
    check.same_or_disjoint(arguments.grad_y, arguments.grad_u, "grad_u overlaps grad_y in part");
  } else {
    check.disjoint(arguments.grad_y, arguments.grad_u, "grad_u and grad_y are different memory");
  }
  context.check_aborted();
  const ActivationKernel& kernel = activation_kernel(kOp, context, u.dtype);
  if (!context.is_measuring()) kernel.backward(context, arguments);
}

}  // namespace plait
