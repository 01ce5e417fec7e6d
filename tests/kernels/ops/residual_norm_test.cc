#include "kernels/ops/residual_norm.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "op_fixture.h"

using namespace plait;

namespace {

constexpr int64_t kNormRows = 6, kNormHidden = 5, kNormSequence = 3;
constexpr double kEpsilon = 1e-5;

/// [sum | y] of [x | delta | bias | weight | norm bias], by the papers' formulas.
std::vector<double> norm_model(NormKind kind, double rate, PhiloxKey key,
                               const std::vector<double>& all) {
  constexpr size_t n = kNormRows * kNormHidden;
  const double *x = all.data(), *delta = x + n, *bias = delta + n, *weight = bias + kNormHidden,
               *norm_bias = weight + kNormHidden;
  std::vector<double> out(2 * n);
  for (size_t row = 0; row < kNormRows; ++row) {
    double* sum = out.data() + row * kNormHidden;
    double mean = 0.0, square = 0.0;
    for (size_t i = 0; i < kNormHidden; ++i) {
      const size_t element = row % kNormSequence * kNormHidden + i;
      const uint32_t word =
          philox(key, {static_cast<uint32_t>(element / 4), 0,
                       static_cast<uint32_t>(40 + row / kNormSequence), 0})[element % 4];
      const bool is_dropped = word < static_cast<uint32_t>(std::floor(rate * 0x1p32));
      const double kept = is_dropped ? 0.0 : 1.0 / (1.0 - rate);
      sum[i] = x[row * kNormHidden + i] + kept * (delta[row * kNormHidden + i] + bias[i]);
      mean += sum[i] / kNormHidden;
      square += sum[i] * sum[i] / kNormHidden;
    }
    if (kind == NormKind::kRms) mean = 0.0;
    for (size_t i = 0; i < kNormHidden; ++i) {
      const double unit = (sum[i] - mean) / std::sqrt(square - mean * mean + kEpsilon);
      out[n + row * kNormHidden + i] =
          unit * weight[i] + (kind == NormKind::kLayer ? norm_bias[i] : 0.0);
    }
  }
  return out;
}

struct Tensors {
  HostTensor x = random_tensor(DType::kFloat32, {kNormRows, kNormHidden}, 1);
  HostTensor delta = random_tensor(DType::kFloat32, {kNormRows, kNormHidden}, 2);
  HostTensor bias = random_tensor(DType::kFloat32, {kNormHidden}, 3);
  HostTensor weight = random_tensor(DType::kFloat32, {kNormHidden}, 4);
  HostTensor norm_bias = random_tensor(DType::kFloat32, {kNormHidden}, 5);
  HostTensor grad_sum = random_tensor(DType::kFloat32, {kNormRows, kNormHidden}, 6);
  HostTensor grad_y = random_tensor(DType::kFloat32, {kNormRows, kNormHidden}, 7);
  HostTensor sum{DType::kFloat32, {kNormRows, kNormHidden}},
      y{DType::kFloat32, {kNormRows, kNormHidden}};
  HostTensor statistics{DType::kFloat32, {kNormRows, 2}};
  HostTensor grad_x{DType::kFloat32, {kNormRows, kNormHidden}},
      grad_delta{DType::kFloat32, {kNormRows, kNormHidden}};
  HostTensor grad_weight{DType::kFloat32, {kNormHidden}},
      grad_norm_bias{DType::kFloat32, {kNormHidden}}, grad_bias{DType::kFloat32, {kNormHidden}};
};

}  // namespace

TEST_CASE("residual norms and their gradients follow the papers", "[residual_norm]") {
  const NormKind kind = GENERATE(NormKind::kLayer, NormKind::kRms);
  const double rate = GENERATE(0.0, 0.3);
  CAPTURE(kind == NormKind::kLayer, rate);
  const PhiloxKey key = stream_key("dropout/layers.0.attention.output", 9);
  const bool is_layer = kind == NormKind::kLayer;
  Tensors t;
  reference_runner().run([&](OpContext& context) {
    ResidualNormForward forward;
    forward.kind = kind;
    forward.epsilon = kEpsilon;
    forward.x = t.x.view();
    forward.delta = t.delta.view();
    forward.bias = t.bias.view();
    forward.dropout = Dropout::make(key, rate, 40);
    forward.sequence = kNormSequence;
    forward.sum = t.sum.view();
    forward.weight = t.weight.view();
    if (is_layer) forward.norm_bias = t.norm_bias.view();
    forward.y = t.y.view();
    forward.statistics = t.statistics.view();
    residual_norm_forward(context, forward);
    ResidualNormBackward backward;
    backward.kind = kind;
    backward.grad_y = t.grad_y.view();
    backward.grad_sum = t.grad_sum.view();
    backward.sum = t.sum.view();
    backward.weight = t.weight.view();
    backward.statistics = t.statistics.view();
    backward.dropout = forward.dropout;
    backward.sequence = kNormSequence;
    backward.grad_x = t.grad_x.view();
    backward.grad_delta = t.grad_delta.view();
    backward.grad_weight = t.grad_weight.view();
    backward.grad_norm_bias = t.grad_norm_bias.view();
    backward.grad_bias = t.grad_bias.view();
    residual_norm_backward(context, backward);
  });
  if (!is_layer) t.grad_norm_bias.fill(0.0);
  const std::vector<double> all = join({&t.x, &t.delta, &t.bias, &t.weight, &t.norm_bias});
  const Model model = [&](const std::vector<double>& x) { return norm_model(kind, rate, key, x); };
  CHECK(difference(join({&t.sum, &t.y}), model(all), 2e-6) == "");
  const std::vector<double> want = numeric_gradient(model, all, join({&t.grad_sum, &t.grad_y}));
  const std::vector<double> got =
      join({&t.grad_x, &t.grad_delta, &t.grad_bias, &t.grad_weight, &t.grad_norm_bias});
  CHECK(difference(got, want, 5e-6) == "");
}

TEST_CASE("either half of a residual norm may be left out", "[residual_norm]") {
  Tensors t;
  reference_runner().run([&](OpContext& context) {
    ResidualNormForward add;
    add.x = t.x.view();
    add.delta = t.delta.view();
    add.sum = t.sum.view();
    residual_norm_forward(context, add);
    ResidualNormForward norm;
    norm.kind = NormKind::kRms;
    norm.x = t.sum.view();
    norm.weight = t.weight.view();
    norm.y = t.y.view();
    norm.statistics = t.statistics.view();
    residual_norm_forward(context, norm);
  });
  for (int64_t i = 0; i < kNormRows * kNormHidden; ++i) {
    CHECK(t.sum.at(i) == Approx(t.x.at(i) + t.delta.at(i)));
  }
  for (int64_t row = 0; row < kNormRows; ++row) CHECK(t.statistics.at(2 * row) == 0.0);

  // Backward of the add alone: the gradient passes, in place, and delta gets a copy.
  HostTensor grad = t.grad_sum.copy();
  reference_runner().run([&](OpContext& context) {
    ResidualNormBackward add;
    add.grad_sum = grad.view();
    add.grad_x = grad.view();
    add.grad_delta = t.grad_delta.view();
    add.grad_bias = t.grad_bias.view();
    residual_norm_backward(context, add);
  });
  CHECK(grad.same_bits(t.grad_sum));
  CHECK(t.grad_delta.same_bits(t.grad_sum));
  for (int64_t i = 0; i < kNormHidden; ++i) {
    double sum = 0.0;
    for (int64_t row = 0; row < kNormRows; ++row) sum += t.grad_sum.at(row * kNormHidden + i);
    CHECK(t.grad_bias.at(i) == Approx(sum).epsilon(1e-6));
  }
}
