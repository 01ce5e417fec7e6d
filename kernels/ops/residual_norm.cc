#include "kernels/ops/residual_norm.h"

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {
namespace {

const ResidualNormKernel& residual_norm_kernel(const char* op, const OpContext& context,
                                               DType compute, DType residual) {
  const IsaLevel isa = context.device.isa();
  return pick(op, context.kernels.residual_norm, [&](const ResidualNormKernel& kernel) {
    return kernel.supports(compute, residual, isa);
  });
}

void check_add(const Arguments& check, const ResidualNormForward& arguments, DType compute) {
  const TensorView& x = arguments.x;
  const Shape vector{x.columns()};
  if (!arguments.delta.is_present()) {
    check.require(!arguments.bias.is_present() && !arguments.sum.is_present(),
                  "without delta there is neither bias nor sum");
    return;
  }
  check.tensor("delta", arguments.delta, compute, x.shape);
  check.optional("bias", arguments.bias, compute, vector);
  check.tensor("sum", arguments.sum, x.dtype, x.shape);
  check.same_or_disjoint(x, arguments.sum, "sum overlaps x in part");
  check.disjoint(arguments.delta, arguments.sum, "sum and delta are different memory");
}

void check_norm(const Arguments& check, const ResidualNormForward& arguments, DType compute) {
  const TensorView& x = arguments.x;
  const Shape vector{x.columns()};
  if (!arguments.weight.is_present()) {
    check.require(!arguments.y.is_present() && !arguments.statistics.is_present() &&
                      !arguments.norm_bias.is_present(),
                  "without a norm weight there is no norm");
    return;
  }
  check.tensor("weight", arguments.weight, compute, vector);
  check.optional("norm_bias", arguments.norm_bias, compute, vector);
  check.require(arguments.kind == NormKind::kLayer || !arguments.norm_bias.is_present(),
                "RMSNorm has no bias");
  check.tensor("y", arguments.y, compute, x.shape);
  check.tensor("statistics", arguments.statistics, DType::kFloat32, {x.rows(), 2});
  check.disjoint(x, arguments.y, "y and x are different memory");
  check.disjoint(arguments.sum, arguments.y, "y and sum are different memory");
}

}  // namespace

void residual_norm_forward(OpContext& context, const ResidualNormForward& arguments) {
  constexpr const char* kOp = "residual_norm_forward";
  const Arguments check(kOp, context);
  const TensorView& x = arguments.x;
  check.floating("x", x, 2);
  check.require(arguments.delta.is_present() || arguments.weight.is_present(),
                "a residual norm adds, or normalizes, or both");
  const DType compute =
      arguments.delta.is_present() ? arguments.delta.dtype : arguments.weight.dtype;
  check.wide_or("x", x.dtype, compute);
  check.require(arguments.sequence > 0, "the sequence length is positive");
  check.require(arguments.first_row >= 0, "rows start at 0");
  check_add(check, arguments, compute);
  check_norm(check, arguments, compute);
  context.check_aborted();
  const ResidualNormKernel& kernel = residual_norm_kernel(kOp, context, compute, x.dtype);
  if (!context.is_measuring()) kernel.forward(context, arguments);
}

void residual_norm_backward(OpContext& context, const ResidualNormBackward& arguments) {
  constexpr const char* kOp = "residual_norm_backward";
  const Arguments check(kOp, context);
  const TensorView& grad_x = arguments.grad_x;
  check.floating("grad_x", grad_x, 2);
  const DType residual = grad_x.dtype;
  const Shape& shape = grad_x.shape;
  const Shape vector{grad_x.columns()};
  const bool has_norm = arguments.grad_y.is_present();
  const bool has_delta = arguments.grad_delta.is_present();
  DType compute = residual;
  if (has_norm) compute = arguments.grad_y.dtype;
  if (!has_norm && has_delta) compute = arguments.grad_delta.dtype;
  check.wide_or("grad_x", residual, compute);
  check.require(has_norm || arguments.grad_sum.is_present(),
                "a gradient comes from the norm, or from later layers, or from both");
  check.require(arguments.sequence > 0, "the sequence length is positive");
  check.require(arguments.first_row >= 0, "rows start at 0");
  check.optional("grad_y", arguments.grad_y, compute, shape);
  check.optional("grad_sum", arguments.grad_sum, residual, shape);
  check.optional("grad_delta", arguments.grad_delta, compute, shape);
  check.optional("grad_weight", arguments.grad_weight, DType::kFloat32, vector);
  check.optional("grad_norm_bias", arguments.grad_norm_bias, DType::kFloat32, vector);
  check.optional("grad_bias", arguments.grad_bias, DType::kFloat32, vector);
  check.require(has_delta || !arguments.grad_bias.is_present(),
                "the gradient of the bias needs that of delta");
  if (has_norm) {
    check.tensor("sum", arguments.sum, residual, shape);
    check.tensor("weight", arguments.weight, compute, vector);
    check.tensor("statistics", arguments.statistics, DType::kFloat32, {shape[0], 2});
    check.disjoint(arguments.sum, grad_x, "grad_x and sum are different memory");
    check.disjoint(arguments.grad_y, grad_x, "grad_x and grad_y are different memory");
  } else {
    check.require(!arguments.grad_weight.is_present() && !arguments.grad_norm_bias.is_present(),
                  "without the norm half its parameters have no gradient");
  }
  check.same_or_disjoint(arguments.grad_sum, grad_x, "grad_x overlaps grad_sum in part");
  check.disjoint(arguments.grad_delta, grad_x, "grad_delta and grad_x are different memory");
  context.check_aborted();
  const ResidualNormKernel& kernel = residual_norm_kernel(kOp, context, compute, residual);
  Workspace::Frame frame(context.workspace);
  void* workspace = frame.take(kernel.workspace_bytes(shape[0], shape[1]));
  if (!context.is_measuring()) kernel.backward(context, arguments, workspace);
}

}  // namespace plait
