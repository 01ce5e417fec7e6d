#include "kernels/ops/normal.h"

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {

void draw_normal(OpContext& context, const NormalStream& stream, TensorView out) {
  constexpr const char* kOp = "draw_normal";
  const Arguments check(kOp, context);
  check.require(out.shape.dims() == 2, "a box has rows and columns");
  check.require(stream.first >= 0 && stream.stride >= 0, "elements are counted from 0");
  context.check_aborted();
  if (out.elements() == 0) return;
  check.tensor("out", out, DType::kFloat32, out.shape);
  const IsaLevel isa = context.device.isa();
  const NormalKernel& kernel =
      pick(kOp, context.kernels.normal,
           [&](const NormalKernel& candidate) { return candidate.supports(isa); });
  if (!context.is_measuring()) kernel.draw(context, stream, out);
}

}  // namespace plait
