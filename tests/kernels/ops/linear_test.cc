#include "kernels/ops/linear.h"

#include <catch2/catch.hpp>

#include "op_fixture.h"

using namespace plait;

namespace {

LinearWeight make_weight(OpContext& context, const HostTensor& weight, int64_t max_rows) {
  const TensorView view = weight.view();
  LinearWeight linear;
  linear.shape = {view.rows(), view.columns(), view.dtype, max_rows};
  linear.plan = make_linear_plan(context, linear.shape);
  linear.weight = view;
  return linear;
}

/// y = x Wᵀ + b of [x | W | b].
Model linear_model(size_t m, size_t n, size_t k) {
  return [=](const std::vector<double>& all) {
    const double *x = all.data(), *w = x + m * k, *b = w + n * k;
    std::vector<double> y(m * n);
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        y[i * n + j] = b[j];
        for (size_t c = 0; c < k; ++c) y[i * n + j] += x[i * k + c] * w[j * k + c];
      }
    }
    return y;
  };
}

}  // namespace

TEST_CASE("a linear and its gradients follow the formula", "[linear]") {
  const HostTensor x = random_tensor(DType::kFloat32, {3, 5}, 1);
  const HostTensor w = random_tensor(DType::kFloat32, {4, 5}, 2);
  const HostTensor b = random_tensor(DType::kFloat32, {4}, 3);
  const HostTensor grad_y = random_tensor(DType::kFloat32, {3, 4}, 4);
  const HostTensor y(DType::kFloat32, {3, 4}), grad_x(DType::kFloat32, {3, 5}),
      grad_w(DType::kFloat32, {4, 5}), grad_b(DType::kFloat32, {4});
  reference_runner().run([&](OpContext& context) {
    const LinearWeight weight = make_weight(context, w, 3);
    linear_pack(context, weight);
    linear_forward(context, weight, {x.view(), b.view(), y.view()});
    linear_backward_input(context, weight, {grad_y.view(), grad_x.view()});
    linear_backward_weight(context, weight,
                           {grad_y.view(), x.view(), grad_w.view(), grad_b.view()});
  });
  const Model model = linear_model(3, 4, 5);
  const std::vector<double> all = join({&x, &w, &b});
  CHECK(difference(y.values(), model(all), 1e-6) == "");
  const std::vector<double> want = numeric_gradient(model, all, grad_y.values());
  CHECK(difference(join({&grad_x, &grad_w, &grad_b}), want, 2e-6) == "");
}

TEST_CASE("accumulating adds to what a gradient holds", "[linear]") {
  const HostTensor x = random_tensor(DType::kFloat32, {3, 5}, 1);
  const HostTensor w = random_tensor(DType::kFloat32, {4, 5}, 2);
  const HostTensor grad_y = random_tensor(DType::kFloat32, {3, 4}, 4);
  const HostTensor grad_w(DType::kFloat32, {4, 5}), grad_b(DType::kFloat32, {4});
  std::vector<double> once;
  for (const GradientMode mode : {GradientMode::kOverwrite, GradientMode::kAccumulate}) {
    reference_runner().run([&](OpContext& context) {
      const LinearWeight weight = make_weight(context, w, 3);
      linear_backward_weight(context, weight,
                             {grad_y.view(), x.view(), grad_w.view(), grad_b.view(), mode});
    });
    if (mode == GradientMode::kOverwrite) once = join({&grad_w, &grad_b});
  }
  for (double& value : once) value *= 2.0;
  CHECK(difference(join({&grad_w, &grad_b}), once, 0.0, 1e-7) == "");
}

TEST_CASE("512 bfloat16 gradients of 1 add to 512", "[linear]") {
  HostTensor x(DType::kBFloat16, {512, 3}), w(DType::kBFloat16, {2, 3}),
      grad_y(DType::kBFloat16, {512, 2});
  for (HostTensor* tensor : {&x, &w, &grad_y}) tensor->fill(1.0);
  const HostTensor grad_w(DType::kFloat32, {2, 3}), grad_b(DType::kFloat32, {2});
  reference_runner().run([&](OpContext& context) {
    const LinearWeight weight = make_weight(context, w, 512);
    linear_backward_weight(context, weight,
                           {grad_y.view(), x.view(), grad_w.view(), grad_b.view()});
  });
  for (const double value : join({&grad_w, &grad_b})) CHECK(value == 512.0);
  for (int64_t row = 0; row < 512; ++row) {  // the same, one row at a time
    reference_runner().run([&](OpContext& context) {
      LinearBackwardWeight arguments{grad_y.view().slice_rows(row, 1), x.view().slice_rows(row, 1),
                                     grad_w.view(), grad_b.view()};
      arguments.mode =
          context.is_measuring() || row == 0 ? GradientMode::kOverwrite : GradientMode::kAccumulate;
      linear_backward_weight(context, make_weight(context, w, 512), arguments);
    });
  }
  for (const double value : join({&grad_w, &grad_b})) CHECK(value == 512.0);
}

TEST_CASE("16-bit inputs may have float32 results", "[linear]") {
  const HostTensor x = random_tensor(DType::kBFloat16, {7, 33}, 1);
  const HostTensor w = random_tensor(DType::kBFloat16, {5, 33}, 2);
  HostTensor zero(DType::kFloat32, {5});
  zero.fill(0.0);
  const HostTensor wide(DType::kFloat32, {7, 5}), narrow(DType::kBFloat16, {7, 5});
  reference_runner().run([&](OpContext& context) {
    const LinearWeight weight = make_weight(context, w, 7);
    linear_forward(context, weight, {x.view(), {}, wide.view()});
    linear_forward(context, weight, {x.view(), {}, narrow.view()});
  });
  const std::vector<double> want = linear_model(7, 5, 33)(join({&x, &w, &zero}));
  CHECK(difference(wide.values(), want, 1e-6, 1e-6) == "");
  CHECK(narrow.same_bits(wide.cast(DType::kBFloat16)));
}
