#include "kernels/ops/linear.h"

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {
namespace {

/// The weight with its plan and packed form.
void check_weight(const Arguments& check, const OpContext& context, const LinearWeight& weight) {
  const LinearShape& shape = weight.shape;
  check.require(shape.n > 0 && shape.k > 0 && shape.max_rows > 0,
                "all sizes of a linear are positive");
  check.require(weight.plan != nullptr, "a linear has its plan");
  check.tensor("weight", weight.weight, shape.dtype, {shape.n, shape.k});
  if (context.is_measuring()) return;
  check.require((weight.packed != nullptr) == (weight.plan->packed_bytes() > 0),
                "a linear has a packed form exactly where its plan asks for one");
  check.require(reinterpret_cast<uintptr_t>(weight.packed) % 64 == 0,
                "a packed form is aligned to 64 bytes");
}

/// Rows of a call, from its [M, columns] tensor.
int64_t check_rows(const Arguments& check, const LinearShape& shape, const char* name,
                   const TensorView& view) {
  check.floating(name, view, 2);
  check.require(view.rows() <= shape.max_rows, "a linear has no more rows than it was planned for");
  return view.rows();
}

}  // namespace

std::unique_ptr<LinearPlan> make_linear_plan(const OpContext& context, const LinearShape& shape) {
  const IsaLevel isa = context.device.isa();
  const LinearKernel& kernel =
      pick("linear", context.kernels.linear,
           [&](const LinearKernel& candidate) { return candidate.supports(shape, isa); });
  return kernel.plan(shape, isa);
}

void linear_pack(OpContext& context, const LinearWeight& weight) {
  const Arguments check("linear_pack", context);
  check_weight(check, context, weight);
  context.check_aborted();
  if (context.is_measuring() || weight.plan->packed_bytes() == 0) return;
  weight.plan->pack(context, weight.weight, weight.packed);
}

void linear_forward(OpContext& context, const LinearWeight& weight,
                    const LinearForward& arguments) {
  const Arguments check("linear_forward", context);
  const LinearShape& shape = weight.shape;
  check_weight(check, context, weight);
  const int64_t rows = check_rows(check, shape, "x", arguments.x);
  check.tensor("x", arguments.x, shape.dtype, {rows, shape.k});
  check.tensor("y", arguments.y, arguments.y.dtype, {rows, shape.n});
  check.wide_or("y", arguments.y.dtype, shape.dtype);
  check.optional("bias", arguments.bias, shape.dtype, {shape.n});
  check.disjoint(arguments.x, arguments.y, "y and x are different memory");
  context.check_aborted();
  Workspace::Frame frame(context.workspace);
  void* workspace = frame.take(weight.plan->workspace_bytes(rows, context.pool().threads()));
  if (context.is_measuring()) return;
  weight.plan->forward(context, weight.weight, weight.packed, arguments, workspace);
}

void linear_backward_input(OpContext& context, const LinearWeight& weight,
                           const LinearBackwardInput& arguments) {
  const Arguments check("linear_backward_input", context);
  const LinearShape& shape = weight.shape;
  check_weight(check, context, weight);
  const int64_t rows = check_rows(check, shape, "grad_y", arguments.grad_y);
  check.tensor("grad_y", arguments.grad_y, shape.dtype, {rows, shape.n});
  check.tensor("grad_x", arguments.grad_x, arguments.grad_x.dtype, {rows, shape.k});
  check.wide_or("grad_x", arguments.grad_x.dtype, shape.dtype);
  check.disjoint(arguments.grad_y, arguments.grad_x, "grad_x and grad_y are different memory");
  context.check_aborted();
  Workspace::Frame frame(context.workspace);
  void* workspace = frame.take(weight.plan->workspace_bytes(rows, context.pool().threads()));
  if (context.is_measuring()) return;
  weight.plan->backward_input(context, weight.weight, weight.packed, arguments, workspace);
}

void linear_backward_weight(OpContext& context, const LinearWeight& weight,
                            const LinearBackwardWeight& arguments) {
  const Arguments check("linear_backward_weight", context);
  const LinearShape& shape = weight.shape;
  check_weight(check, context, weight);
  const int64_t rows = check_rows(check, shape, "grad_y", arguments.grad_y);
  check.tensor("grad_y", arguments.grad_y, shape.dtype, {rows, shape.n});
  check.tensor("x", arguments.x, shape.dtype, {rows, shape.k});
  check.tensor("grad_weight", arguments.grad_weight, DType::kFloat32, {shape.n, shape.k});
  check.optional("grad_bias", arguments.grad_bias, DType::kFloat32, {shape.n});
  context.check_aborted();
  Workspace::Frame frame(context.workspace);
  void* workspace = frame.take(weight.plan->workspace_bytes(rows, context.pool().threads()));
  if (context.is_measuring()) return;
  weight.plan->backward_weight(context, arguments, workspace);
}

}  // namespace plait
