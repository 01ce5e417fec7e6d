#include "kernels/ops/attention.h"

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {
namespace {

const AttentionKernel& attention_kernel(const char* op, const OpContext& context,
                                        const AttentionShape& shape, DType dtype) {
  const IsaLevel isa = context.device.isa();
  return pick(op, context.kernels.attention,
              [&](const AttentionKernel& kernel) { return kernel.supports(shape, dtype, isa); });
}

Shape fused_shape(const AttentionShape& shape) {
  return {shape.batch * shape.sequence,
          (shape.heads + 2 * shape.key_value_heads) * shape.head_size};
}

Shape output_shape(const AttentionShape& shape) {
  return {shape.batch * shape.sequence, shape.heads * shape.head_size};
}

/// What both passes share.
void check_common(const Arguments& check, const OpContext& context, const AttentionShape& shape,
                  const TensorView& qkv, const int32_t* first_visible) {
  check.require(shape.batch > 0 && shape.sequence > 0 && shape.heads > 0 &&
                    shape.key_value_heads > 0 && shape.head_size > 0 && shape.first_head >= 0,
                "all sizes of an attention are positive");
  check.require(shape.key_value_heads <= shape.heads, "no more key/value heads than query heads");
  check.floating("qkv", qkv, 2);
  check.tensor("qkv", qkv, qkv.dtype, fused_shape(shape));
  if (first_visible == nullptr || context.is_measuring()) return;
  for (int64_t row = 0; row < shape.batch * shape.sequence; ++row) {
    check.require(first_visible[row] >= 0 && first_visible[row] <= row % shape.sequence,
                  "every row may see itself and nothing before its sample");
  }
}

}  // namespace

void attention_forward(OpContext& context, const AttentionForward& arguments) {
  constexpr const char* kOp = "attention_forward";
  const Arguments check(kOp, context);
  const AttentionShape& shape = arguments.shape;
  const DType dtype = arguments.qkv.dtype;
  check_common(check, context, shape, arguments.qkv, arguments.first_visible);
  check.tensor("y", arguments.y, dtype, output_shape(shape));
  check.tensor("log_sum", arguments.log_sum, DType::kFloat32,
               {shape.batch, shape.heads, shape.sequence});
  check.disjoint(arguments.qkv, arguments.y, "y and qkv are different memory");
  context.check_aborted();
  const AttentionKernel& kernel = attention_kernel(kOp, context, shape, dtype);
  Workspace::Frame frame(context.workspace);
  void* workspace = frame.take(kernel.workspace_bytes(shape, dtype, context.pool().threads()));
  if (!context.is_measuring()) kernel.forward(context, arguments, workspace);
}

void attention_backward(OpContext& context, const AttentionBackward& arguments) {
  constexpr const char* kOp = "attention_backward";
  const Arguments check(kOp, context);
  const AttentionShape& shape = arguments.shape;
  const DType dtype = arguments.qkv.dtype;
  check_common(check, context, shape, arguments.qkv, arguments.first_visible);
  check.tensor("y", arguments.y, dtype, output_shape(shape));
  check.tensor("grad_y", arguments.grad_y, dtype, output_shape(shape));
  check.tensor("grad_qkv", arguments.grad_qkv, dtype, fused_shape(shape));
  check.tensor("log_sum", arguments.log_sum, DType::kFloat32,
               {shape.batch, shape.heads, shape.sequence});
  check.disjoint(arguments.grad_qkv, arguments.qkv, "grad_qkv and qkv are different memory");
  check.disjoint(arguments.grad_qkv, arguments.grad_y, "grad_qkv and grad_y are different memory");
  check.disjoint(arguments.grad_qkv, arguments.y, "grad_qkv and y are different memory");
  context.check_aborted();
  const AttentionKernel& kernel = attention_kernel(kOp, context, shape, dtype);
  Workspace::Frame frame(context.workspace);
  void* workspace = frame.take(kernel.workspace_bytes(shape, dtype, context.pool().threads()));
  if (!context.is_measuring()) kernel.backward(context, arguments, workspace);
}

}  // namespace plait
