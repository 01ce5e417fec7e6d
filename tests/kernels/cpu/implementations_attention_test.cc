#include <cmath>

#include "implementations.h"
#include "kernels/ops/attention.h"

using namespace plait;

namespace {

struct Problem {
  AttentionShape shape;
  DType dtype;
  Dropout dropout;
  std::vector<int32_t> first_visible;  ///< empty: none
  bool is_misaligned;
  HostTensor qkv, grad_y, y, log_sum;

  Problem(const std::vector<int64_t>& sizes, DType dtype_, double rate, bool has_documents,
          bool is_misaligned_)
      : shape{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], rate > 0 ? 5 : 0},
        dtype(dtype_),
        dropout(Dropout::make(stream_key("dropout/layers.1.attention.probabilities", 3), rate, 70)),
        is_misaligned(is_misaligned_),
        qkv(random_tensor(dtype, fused(), 1, 1.0, is_misaligned)),
        grad_y(random_tensor(dtype, output(), 2, 1.0, is_misaligned)),
        y(dtype, output()),
        log_sum(DType::kFloat32, {shape.batch, shape.heads, shape.sequence}) {
    for (int64_t row = 0; has_documents && row < shape.batch * shape.sequence; ++row) {
      const int64_t at = row % shape.sequence;  // documents of 9, after one of 4
      first_visible.push_back(static_cast<int32_t>(at < 4 ? 0 : (at - 4) / 9 * 9 + 4));
    }
    reference_runner().run([&](OpContext& context) { forward(context, y, log_sum); });
  }

  Shape fused() const {
    return {shape.batch * shape.sequence,
            (shape.heads + 2 * shape.key_value_heads) * shape.head_size};
  }
  Shape output() const { return {shape.batch * shape.sequence, shape.heads * shape.head_size}; }
  const int32_t* first() const { return first_visible.empty() ? nullptr : first_visible.data(); }

  void forward(OpContext& context, const HostTensor& out, const HostTensor& sums) const {
    attention_forward(context, {shape, qkv.view(), first(), dropout, out.view(), sums.view()});
  }

  std::string name() const {
    return "attention " + fused().text() + " of " + std::to_string(shape.batch) + " samples, " +
           std::to_string(shape.heads) + "/" + std::to_string(shape.key_value_heads) + " heads " +
           dtype_name(dtype) + (dropout.is_active() ? " dropout" : "") +
           (first_visible.empty() ? "" : " documents");
  }
};

/// Backward starts from the reference's y and log_sum, so that each pass is judged alone.
std::vector<HostTensor> run_all(OpRunner& runner, const Problem& p) {
  const HostTensor y(p.dtype, p.output(), p.is_misaligned),
      log_sum(DType::kFloat32, p.log_sum.view().shape);
  const HostTensor grad_qkv(p.dtype, p.fused(), p.is_misaligned);
  runner.run([&](OpContext& context) {
    p.forward(context, y, log_sum);
    attention_backward(context, {p.shape, p.qkv.view(), p.first(), p.dropout, p.y.view(),
                                 p.log_sum.view(), p.grad_y.view(), grad_qkv.view()});
  });
  return {y, log_sum, grad_qkv};
}

void check_problem(const Problem& p) {
  const double scale = p.dropout.scale;
  const bool is_wide = p.dtype == DType::kFloat32;
  HostTensor grad = run_all(reference_runner(), p)[2];
  // 16-bit implementations may round probabilities and their gradients to the compute dtype.
  const double values = (is_wide ? 4e-6 : spacing(p.dtype) / 2) * largest(p.qkv) * scale;
  const double grads = (is_wide ? 1e-5 : 2 * spacing(p.dtype)) * largest(grad);
  check_all(
      p.name(), &Kernels::attention,
      [&](const AttentionKernel& kernel, IsaLevel level) {
        return kernel.supports(p.shape, p.dtype, level);
      },
      [&](OpRunner& runner) { return run_all(runner, p); },
      {{"y", values, rounding(p.dtype)},
       {"log_sum", 1e-5, 2e-6},
       {"grad_qkv", grads, rounding(p.dtype)}});
}

}  // namespace

TEST_CASE("every attention equals the reference", "[attention]") {
  bool is_misaligned = false;
  for (const std::vector<int64_t>& sizes : shapes("attention")) {
    for (const DType dtype : kDTypes) {
      check_problem(Problem(sizes, dtype, 0.0, false, is_misaligned));
      check_problem(Problem(sizes, dtype, 0.3, true, is_misaligned));
      is_misaligned = !is_misaligned;
    }
  }
}
