// What the comparison with the reference on random numbers does not reach: numbers at the ends of
// the range, and where a NaN goes.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/vector_kernels.h"
#include "kernels/math/adamw.h"
#include "tests/kernels/cpu/implementations.h"

namespace plait {
namespace {

Kernels vector_lists() {
  Kernels kernels;
  kernels.residual_norm = {&vector_residual_norm()};
  kernels.activation = {&vector_activation()};
  kernels.cross_entropy = {&vector_cross_entropy()};
  kernels.adamw = {&vector_adamw()};
  return kernels;
}

std::vector<IsaLevel> vector_levels() {
  std::vector<IsaLevel> found;
  for (const IsaLevel level : levels()) {
    if (level != IsaLevel::kBaseline) found.push_back(level);
  }
  return found;
}

/// Floats of every exponent, one block of 32 of each so that whole vectors share it.
std::vector<double> floats_of_all_exponents() {
  std::vector<double> found;
  for (uint32_t high = 0; high < 0x200u; ++high) {
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t mantissa = i == 31 ? 0x7FFFFFu : (i * 0x2ABCDEu + high * 977u) & 0x7FFFFFu;
      found.push_back(std::bit_cast<float>(high << 23 | mantissa));
    }
  }
  for (int i = 0; i < 64; ++i) found.push_back(0.0);
  return found;
}

TEST_CASE("AdamW rounds like division and root at both ends of the range", "[adamw]") {
  const std::vector<double> wide = floats_of_all_exponents();
  const auto n = static_cast<int64_t>(wide.size());
  for (const float correction : {1.0f, 0.1f, 0x1.fffffep-1f, 0x1.fffffcp-1f, 0.7654321f}) {
    for (const IsaLevel level : vector_levels()) {
      HostTensor master = random_tensor(DType::kFloat32, {n}, 1), weight = master.copy();
      HostTensor moment1(DType::kFloat32, {n}, wide), moment2(DType::kFloat32, {n}, wide);
      HostTensor gradient = random_tensor(DType::kFloat32, {n}, 2, 1e-30);
      AdamW a;
      a.master = master.view();
      a.moment1 = moment1.view();
      a.moment2 = moment2.view();
      a.gradient = gradient.view();
      a.weight = weight.view();
      a.lr = 0.01f;
      a.decay = 0.1f;
      a.correction1 = correction;
      a.correction2 = correction;
      OpRunner runner(vector_lists(), level, 2);
      runner.run([&](OpContext& context) { adamw(context, a); });
      const AdamWFactors factors{1.0f,           a.lr,      a.beta1, 1.0f - a.beta1, a.beta2,
                                 1.0f - a.beta2, a.epsilon, a.decay, correction,     correction};
      const HostTensor start = random_tensor(DType::kFloat32, {n}, 1);
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; ++i) {
        auto m = static_cast<float>(wide[static_cast<size_t>(i)]), s = m;
        auto theta = static_cast<float>(start.at(i));
        adamw_element(factors, static_cast<float>(gradient.at(i)), m, s, theta);
        const auto got = static_cast<float>(master.at(i));
        const bool is_same = std::isnan(theta) ? std::isnan(got) : got == theta;
        if (!is_same) ++wrong;
      }
      INFO(isa_name(level) << ", correction " << correction);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a NaN reaches every result that depends on it", "[nan]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr int64_t kRows = 3, kColumns = 37;
  for (const DType dtype : kDTypes) {
    for (const IsaLevel level : vector_levels()) {
      INFO(dtype_name(dtype) << " at " << isa_name(level));
      OpRunner runner(vector_lists(), level);
      for (const ActivationKind kind : {ActivationKind::kGelu, ActivationKind::kSwiglu}) {
        const int64_t width = kind == ActivationKind::kGelu ? kColumns : 2 * kColumns;
        HostTensor u = random_tensor(dtype, {kRows, width}, 3);
        HostTensor y(dtype, {kRows, kColumns}), grad_u(dtype, {kRows, width});
        const HostTensor grad_y = random_tensor(dtype, {kRows, kColumns}, 4);
        u.set(35, nan);
        runner.run([&](OpContext& context) {
          activation_forward(context, {kind, u.view(), y.view()});
          activation_backward(context, {kind, u.view(), grad_y.view(), grad_u.view()});
        });
        for (int64_t i = 0; i < y.elements(); ++i) REQUIRE(std::isnan(y.at(i)) == (i == 35));
        REQUIRE(std::isnan(grad_u.at(35)));
        REQUIRE(!std::isnan(grad_u.at(34)));
      }
      HostTensor x = random_tensor(dtype, {kRows, kColumns}, 5), y(dtype, {kRows, kColumns});
      HostTensor weight = random_tensor(dtype, {kColumns}, 6);
      HostTensor statistics(DType::kFloat32, {kRows, 2});
      x.set(kColumns + 36, nan);
      ResidualNormForward norm;
      norm.x = x.view();
      norm.weight = weight.view();
      norm.y = y.view();
      norm.statistics = statistics.view();
      runner.run([&](OpContext& context) { residual_norm_forward(context, norm); });
      for (int64_t i = 0; i < y.elements(); ++i) {
        REQUIRE(std::isnan(y.at(i)) == (i / kColumns == 1));
      }
    }
  }
}

TEST_CASE("a NaN logit or an infinite one makes the sum of its row NaN", "[nan]") {
  constexpr int64_t kColumns = 83, kVocabulary = 70;
  const std::vector<int32_t> targets = {3, 69, -1, 5};
  for (const double odd :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const IsaLevel level : vector_levels()) {
      INFO(isa_name(level) << ", logit " << odd);
      HostTensor logits = random_tensor(DType::kFloat32, {4, kColumns}, 7);
      HostTensor maximum(DType::kFloat32, {4}), sum(DType::kFloat32, {4});
      HostTensor target_logit(DType::kFloat32, {4}), grad(DType::kBFloat16, {4, kColumns});
      logits.set(kVocabulary - 1, odd);         // counts
      logits.set(kColumns + kVocabulary, odd);  // is padding
      logits.set(2 * kColumns, odd);            // of a row that does not count
      OpRunner runner(vector_lists(), level);
      runner.run([&](OpContext& context) {
        cross_entropy_statistics(context, {logits.view(), kVocabulary, 0, targets.data(),
                                           maximum.view(), sum.view(), target_logit.view()});
        cross_entropy_gradient(context, {logits.view(), kVocabulary, 0, targets.data(),
                                         maximum.view(), sum.view(), 1.0f, grad.view()});
      });
      CHECK(std::isnan(sum.at(0)));
      CHECK(std::isfinite(sum.at(1)));
      CHECK(std::isfinite(sum.at(3)));
      CHECK(std::isnan(grad.at(0)));
      for (int64_t i = 0; i < kColumns; ++i) {
        REQUIRE(std::isfinite(grad.at(kColumns + i)));
        REQUIRE(grad.at(2 * kColumns + i) == 0.0);
        REQUIRE((i < kVocabulary || grad.at(i) == 0.0));
      }
    }
  }
}

}  // namespace
}  // namespace plait
