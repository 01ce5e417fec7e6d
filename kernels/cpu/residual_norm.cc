#include <algorithm>
#include <cstring>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/vector_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/residual_norm.cc"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/residual_norm_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

void forward_rows(const ResidualNormForward& a, int64_t first, int64_t last) {
  const DType compute = a.delta.is_present() ? a.delta.dtype : a.weight.dtype;
  visit_storage(compute, a.x.dtype, [&](auto c, auto r) {
    using C = typename decltype(c)::type;
    using R = typename decltype(r)::type;
    for (int64_t row = first; row < last; ++row) forward_row<C, R>(a, row);
  });
}

/// `block` is zeroed here: [3, H], sums for weight, norm bias and bias.
void backward_rows(const ResidualNormBackward& a, float* block, int64_t first, int64_t last) {
  const int64_t hidden = a.grad_x.columns();
  std::memset(block, 0, static_cast<size_t>(3 * hidden) * sizeof(float));
  ColumnSums sums;
  if (a.grad_weight.is_present()) sums.weight = block;
  if (a.grad_norm_bias.is_present()) sums.norm_bias = block + hidden;
  if (a.grad_bias.is_present()) sums.bias = block + 2 * hidden;
  DType compute = a.grad_x.dtype;
  if (a.grad_delta.is_present()) compute = a.grad_delta.dtype;
  if (a.grad_y.is_present()) compute = a.grad_y.dtype;
  visit_storage(compute, a.grad_x.dtype, [&](auto c, auto r) {
    using C = typename decltype(c)::type;
    using R = typename decltype(r)::type;
    for (int64_t row = first; row < last; ++row) {
      if (a.grad_y.is_present()) {
        const NormRow norm = measure_norm<C, R>(a, sums, row);
        grad_row<C, R>(a, &norm, sums, row);
      } else {
        grad_row<C, R>(a, nullptr, sums, row);
      }
    }
  });
}

/// Columns [first, last) of one vector: block sums in ascending order of blocks, `stride` apart.
void join_blocks(const float* blocks, int64_t count, int64_t stride, const TensorView& out,
                 GradientMode mode, int64_t first, int64_t last) {
  const FloatTag d;
  float* to = out.as<float>();
  for_vectors(d, last - first, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const int64_t column = first + i;
    FloatVector sum = hn::Zero(d);
    for (int64_t block = 0; block < count; ++block) {
      sum = hn::Add(sum, load(d, blocks + block * stride + column, lanes));
    }
    if (mode == GradientMode::kAccumulate) sum = hn::Add(load(d, to + column, lanes), sum);
    store(d, sum, to + column, lanes);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait {
namespace {

PLAIT_CPU_EXPORT(forward_rows);
PLAIT_CPU_EXPORT(backward_rows);
PLAIT_CPU_EXPORT(join_blocks);

/// Rows of one block of column sums: at most 64 blocks, of 16 to 256 rows, but more than 64 blocks
/// where 256 rows are not enough.
int64_t rows_per_block(int64_t rows) {
  const int64_t wanted = (rows + 63) / 64;
  return std::clamp<int64_t>((wanted + 15) / 16 * 16, 16, 256);
}

int64_t row_blocks(int64_t rows) {
  const int64_t size = rows_per_block(rows);
  return (rows + size - 1) / size;
}

class VectorResidualNorm : public ResidualNormKernel {
 public:
  const char* name() const override { return "vector"; }
  bool supports(DType compute, DType residual, IsaLevel isa) const override {
    return has_vector_code(isa) && is_vector_pair(compute, residual);
  }
  int64_t workspace_bytes(int64_t rows, int64_t hidden) const override {
    return row_blocks(rows) * 3 * hidden * static_cast<int64_t>(sizeof(float));
  }

  void forward(OpContext& context, const ResidualNormForward& a) const override {
    const auto function = PLAIT_CPU_CALL(forward_rows, context.device.isa());
    context.pool().run_range(a.x.rows(), rows_per_task(a.x.columns()),
                             [&](int64_t first, int64_t last, int) { function(a, first, last); });
  }

  void backward(OpContext& context, const ResidualNormBackward& a, void* workspace) const override {
    const auto function = PLAIT_CPU_CALL(backward_rows, context.device.isa());
    const int64_t rows = a.grad_x.rows(), hidden = a.grad_x.columns();
    const int64_t size = rows_per_block(rows);
    auto* blocks = static_cast<float*>(workspace);
    context.pool().run_range(rows, size, [&](int64_t first, int64_t last, int) {
      function(a, blocks + first / size * 3 * hidden, first, last);
    });
    join(context, a, blocks);
  }

 private:
  static void join(OpContext& context, const ResidualNormBackward& a, const float* blocks) {
    const auto function = PLAIT_CPU_CALL(join_blocks, context.device.isa());
    const int64_t hidden = a.grad_x.columns(), count = row_blocks(a.grad_x.rows());
    const TensorView* outputs[3] = {&a.grad_weight, &a.grad_norm_bias, &a.grad_bias};
    context.pool().run_range(hidden, 512, [&](int64_t first, int64_t last, int) {
      for (int64_t i = 0; i < 3; ++i) {
        if (!outputs[i]->is_present()) continue;
        function(blocks + i * hidden, count, 3 * hidden, *outputs[i], a.mode, first, last);
      }
    });
  }
};

}  // namespace

const ResidualNormKernel& vector_residual_norm() {
  static const VectorResidualNorm kernel;
  return kernel;
}

}  // namespace plait
#endif  // HWY_ONCE
