#include "kernels/ops/adamw.h"

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {

void adamw(OpContext& context, const AdamW& arguments) {
  constexpr const char* kOp = "adamw";
  const Arguments check(kOp, context);
  const Shape& shape = arguments.master.shape;
  check.require(shape.dims() == 1, "AdamW runs over flat spans");
  context.check_aborted();
  if (shape[0] == 0) return;
  check.tensor("master", arguments.master, DType::kFloat32, shape);
  check.tensor("moment1", arguments.moment1, DType::kFloat32, shape);
  check.tensor("moment2", arguments.moment2, DType::kFloat32, shape);
  check.tensor("gradient", arguments.gradient, DType::kFloat32, shape);
  check.floating("weight", arguments.weight, 1);
  check.tensor("weight", arguments.weight, arguments.weight.dtype, shape);
  check.disjoint(arguments.master, arguments.moment1, "master and moments are different memory");
  check.disjoint(arguments.master, arguments.moment2, "master and moments are different memory");
  check.disjoint(arguments.moment1, arguments.moment2, "the moments are different memory");
  check.same_or_disjoint(arguments.master, arguments.weight, "weight overlaps master in part");
  check.require(arguments.correction1 > 0.0f && arguments.correction2 > 0.0f,
                "the bias corrections are those of an update number from 1");
  const IsaLevel isa = context.device.isa();
  const AdamWKernel& kernel = pick(kOp, context.kernels.adamw, [&](const AdamWKernel& candidate) {
    return candidate.supports(arguments.weight.dtype, isa);
  });
  if (!context.is_measuring()) kernel.run(context, arguments);
}

}  // namespace plait
