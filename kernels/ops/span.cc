#include "kernels/ops/span.h"

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {
namespace {

const SpanKernel& span_kernel(const char* op, const OpContext& context, DType from, DType to) {
  const IsaLevel isa = context.device.isa();
  return pick(op, context.kernels.span, [&](const SpanKernel& kernel) {
    return kernel.supports(from, isa) && kernel.supports(to, isa);
  });
}

}  // namespace

void convert_span(OpContext& context, TensorView from, TensorView to) {
  constexpr const char* kOp = "convert_span";
  const Arguments check(kOp, context);
  check.require(from.shape.dims() == 1 && to.shape == from.shape, "spans are flat and of one size");
  context.check_aborted();
  if (from.shape[0] == 0) return;
  check.floating("from", from, 1);
  check.floating("to", to, 1);
  if (from.dtype == to.dtype) {
    check.same_or_disjoint(from, to, "the spans overlap in part");
  } else {
    check.disjoint(from, to, "the spans are different memory");
  }
  const SpanKernel& kernel = span_kernel(kOp, context, from.dtype, to.dtype);
  if (!context.is_measuring()) kernel.convert(context, from, to);
}

void add_span(OpContext& context, TensorView from, TensorView to) {
  constexpr const char* kOp = "add_span";
  const Arguments check(kOp, context);
  check.require(from.shape.dims() == 1 && to.shape == from.shape, "spans are flat and of one size");
  context.check_aborted();
  if (from.shape[0] == 0) return;
  check.floating("from", from, 1);
  check.tensor("to", to, from.dtype, from.shape);
  check.same_or_disjoint(from, to, "the spans overlap in part");
  const SpanKernel& kernel = span_kernel(kOp, context, from.dtype, from.dtype);
  if (!context.is_measuring()) kernel.add(context, from, to);
}

double sum_squares(OpContext& context, TensorView span) {
  constexpr const char* kOp = "sum_squares";
  const Arguments check(kOp, context);
  check.require(span.shape.dims() == 1, "spans are flat");
  context.check_aborted();
  if (span.shape[0] == 0) return 0.0;
  check.tensor("span", span, DType::kFloat32, span.shape);
  const SpanKernel& kernel = span_kernel(kOp, context, DType::kFloat32, DType::kFloat32);
  Workspace::Frame frame(context.workspace);
  const int64_t blocks = (span.shape[0] + kSumSquaresBlock - 1) / kSumSquaresBlock;
  double* block_sums = frame.take<double>(blocks);
  return context.is_measuring() ? 0.0 : kernel.sum_squares(context, span, block_sums);
}

}  // namespace plait
