#include "kernels/ops/cross_entropy.h"

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {
namespace {

const CrossEntropyKernel& cross_entropy_kernel(const char* op, const OpContext& context,
                                               DType grad_dtype) {
  const IsaLevel isa = context.device.isa();
  return pick(op, context.kernels.cross_entropy,
              [&](const CrossEntropyKernel& kernel) { return kernel.supports(grad_dtype, isa); });
}

void check_logits(const Arguments& check, const TensorView& logits, int64_t vocabulary,
                  int64_t first_id, const int32_t* targets) {
  check.floating("logits", logits, 2);
  check.tensor("logits", logits, DType::kFloat32, logits.shape);
  check.require(vocabulary >= 0 && vocabulary <= logits.columns(),
                "the columns that count are columns of the logits");
  check.require(first_id >= 0, "ids start at 0");
  check.pointer("targets", targets);
}

}  // namespace

void cross_entropy_statistics(OpContext& context, const CrossEntropyStatistics& arguments) {
  constexpr const char* kOp = "cross_entropy_statistics";
  const Arguments check(kOp, context);
  check_logits(check, arguments.logits, arguments.vocabulary, arguments.first_id,
               arguments.targets);
  const Shape rows{arguments.logits.rows()};
  check.tensor("maximum", arguments.maximum, DType::kFloat32, rows);
  check.tensor("sum", arguments.sum, DType::kFloat32, rows);
  check.tensor("target_logit", arguments.target_logit, DType::kFloat32, rows);
  context.check_aborted();
  const CrossEntropyKernel& kernel = cross_entropy_kernel(kOp, context, DType::kFloat32);
  if (!context.is_measuring()) kernel.statistics(context, arguments);
}

void cross_entropy_gradient(OpContext& context, const CrossEntropyGradient& arguments) {
  constexpr const char* kOp = "cross_entropy_gradient";
  const Arguments check(kOp, context);
  const TensorView& logits = arguments.logits;
  check_logits(check, logits, arguments.vocabulary, arguments.first_id, arguments.targets);
  const Shape rows{logits.rows()};
  check.tensor("maximum", arguments.maximum, DType::kFloat32, rows);
  check.tensor("sum", arguments.sum, DType::kFloat32, rows);
  check.floating("grad", arguments.grad, 2);
  check.tensor("grad", arguments.grad, arguments.grad.dtype, logits.shape);
  check.same_or_disjoint(logits, arguments.grad, "grad overlaps the logits in part");
  context.check_aborted();
  const CrossEntropyKernel& kernel = cross_entropy_kernel(kOp, context, arguments.grad.dtype);
  if (!context.is_measuring()) kernel.gradient(context, arguments);
}

}  // namespace plait
