#include "kernels/ops/activation.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "op_fixture.h"

using namespace plait;

namespace {

double gelu_formula(double x) {
  const double inner = std::sqrt(2.0 / M_PI) * (x + 0.044715 * std::pow(x, 3));
  return 0.5 * x * (1.0 + std::tanh(inner));
}

std::vector<double> swiglu_model(const std::vector<double>& u, size_t rows, size_t width) {
  std::vector<double> y(rows * width);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < width; ++i) {
      const double gate = u[row * 2 * width + i], up = u[row * 2 * width + width + i];
      y[row * width + i] = gate / (1.0 + std::exp(-gate)) * up;
    }
  }
  return y;
}

}  // namespace

TEST_CASE("GELU is the tanh form, with its derivative", "[activation]") {
  const HostTensor u = random_tensor(DType::kFloat32, {3, 7}, 1, 2.0);
  const HostTensor grad_y = random_tensor(DType::kFloat32, {3, 7}, 2);
  const HostTensor y(DType::kFloat32, {3, 7}), grad_u = grad_y.copy();
  reference_runner().run([&](OpContext& context) {
    activation_forward(context, {ActivationKind::kGelu, u.view(), y.view()});
    activation_backward(context, {ActivationKind::kGelu, u.view(), grad_u.view(), grad_u.view()});
  });
  const Model model = [](std::vector<double> x) {
    for (double& value : x) value = gelu_formula(value);
    return x;
  };
  CHECK(difference(y.values(), model(u.values()), 1e-6) == "");
  CHECK(difference(grad_u.values(), numeric_gradient(model, u.values(), grad_y.values()), 2e-6) ==
        "");
  // The erf form gives 0.8413447 at 1.
  CHECK(gelu_formula(1.0) == Approx(0.8411920).epsilon(1e-6));
}

TEST_CASE("activations stay finite far out", "[activation]") {
  const HostTensor u(DType::kFloat32, {1, 6}, {-3e4, -100, 0, 50, 300, 3e4});
  const HostTensor y(DType::kFloat32, {1, 6}), y2(DType::kFloat32, {1, 3});
  const HostTensor ones(DType::kFloat32, {1, 6}, std::vector<double>(6, 1.0));
  const HostTensor grad_u(DType::kFloat32, {1, 6});
  reference_runner().run([&](OpContext& context) {
    activation_forward(context, {ActivationKind::kGelu, u.view(), y.view()});
    activation_forward(context, {ActivationKind::kSwiglu, u.view(), y2.view()});
    activation_backward(context, {ActivationKind::kGelu, u.view(), ones.view(), grad_u.view()});
  });
  CHECK(difference(y.values(), {0, 0, 0, 50, 300, 3e4}, 1e-6) == "");
  CHECK(difference(y2.values(), {0, 0, 0}, 1e-6) == "");
  CHECK(difference(grad_u.values(), {0, 0, 0.5, 1, 1, 1}, 1e-6) == "");
}

TEST_CASE("SwiGLU takes gate and up side by side", "[activation]") {
  const HostTensor u = random_tensor(DType::kFloat32, {3, 10}, 1, 2.0);
  const HostTensor grad_y = random_tensor(DType::kFloat32, {3, 5}, 2);
  const HostTensor y(DType::kFloat32, {3, 5}), grad_u(DType::kFloat32, {3, 10});
  reference_runner().run([&](OpContext& context) {
    activation_forward(context, {ActivationKind::kSwiglu, u.view(), y.view()});
    activation_backward(context, {ActivationKind::kSwiglu, u.view(), grad_y.view(), grad_u.view()});
  });
  const Model model = [](const std::vector<double>& x) { return swiglu_model(x, 3, 5); };
  CHECK(difference(y.values(), model(u.values()), 2e-6) == "");
  CHECK(difference(grad_u.values(), numeric_gradient(model, u.values(), grad_y.values()), 3e-6) ==
        "");
}
