#include "kernels/ops/rotary.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {

void make_rotary_table(double base, TensorView table) {
  check(table.is_present() && table.dtype == DType::kFloat32 && table.shape.dims() == 2 &&
            table.columns() % 2 == 0 && base > 0.0,
        "a rotary table is float32 [positions, even head size]");
  const int64_t head_size = table.columns(), half = head_size / 2;
  float* out = table.as<float>();
  for (int64_t j = 0; j < half; ++j) {
    const double exponent = -2.0 * static_cast<double>(j) / static_cast<double>(head_size);
    const double frequency = std::pow(base, exponent);
    for (int64_t position = 0; position < table.rows(); ++position) {
      const double angle = static_cast<double>(position) * frequency;
      out[position * head_size + j] = static_cast<float>(std::cos(angle));
      out[position * head_size + half + j] = static_cast<float>(std::sin(angle));
    }
  }
}

void rotary(OpContext& context, const Rotary& arguments) {
  constexpr const char* kOp = "rotary";
  const Arguments check(kOp, context);
  const TensorView& qkv = arguments.qkv;
  check.require(arguments.heads > 0 && arguments.key_value_heads > 0 && arguments.head_size > 0 &&
                    arguments.head_size % 2 == 0 && arguments.sequence > 0,
                "rotary sizes are positive and the head size is even");
  check.floating("qkv", qkv, 2);
  check.tensor(
      "qkv", qkv, qkv.dtype,
      {qkv.rows(), (arguments.heads + 2 * arguments.key_value_heads) * arguments.head_size});
  check.floating("table", arguments.table, 2);
  const int64_t longest = arguments.table.rows();
  check.tensor("table", arguments.table, DType::kFloat32, {longest, arguments.head_size});
  if (arguments.positions != nullptr) {
    check.indices("positions", arguments.positions, qkv.rows(), 0, longest);
  } else {
    check.require(std::min(qkv.rows(), arguments.sequence) <= longest,
                  "the sequence is no longer than the rotary table");
  }
  context.check_aborted();
  const IsaLevel isa = context.device.isa();
  const RotaryKernel& kernel =
      pick(kOp, context.kernels.rotary,
           [&](const RotaryKernel& candidate) { return candidate.supports(qkv.dtype, isa); });
  if (!context.is_measuring()) kernel.run(context, arguments);
}

}  // namespace plait
