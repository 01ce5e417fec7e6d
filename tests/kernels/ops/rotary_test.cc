#include "kernels/ops/rotary.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <complex>

#include "op_fixture.h"

using namespace plait;

namespace {

constexpr int64_t kRotatedRows = 4, kHeads = 2, kShared = 1, kSize = 6, kWidth = 4 * kSize;
const std::vector<int32_t> kPositions = {0, 3, 1, 9};

/// Pairs as complex numbers, turned by position · 10000^(−2j/D).
std::vector<double> rotary_model(std::vector<double> x) {
  for (size_t row = 0; row < kRotatedRows; ++row) {
    for (size_t head = 0; head < kHeads + kShared; ++head) {
      double* part = x.data() + row * kWidth + head * kSize;
      for (size_t j = 0; j < kSize / 2; ++j) {
        const double angle = kPositions[row] * std::pow(10000.0, -2.0 * j / kSize);
        const auto turned =
            std::complex<double>(part[j], part[j + kSize / 2]) * std::polar(1.0, angle);
        part[j] = turned.real();
        part[j + kSize / 2] = turned.imag();
      }
    }
  }
  return x;
}

void run_rotary(const HostTensor& qkv, const HostTensor& table, bool is_inverse) {
  reference_runner().run([&](OpContext& context) {
    rotary(context,
           {qkv.view(), kHeads, kShared, kSize, table.view(), kPositions.data(), 10, is_inverse});
  });
}

}  // namespace

TEST_CASE("rotary turns queries and keys, and its inverse is the gradient", "[rotary]") {
  const HostTensor table(DType::kFloat32, {10, kSize});
  make_rotary_table(10000.0, table.view());
  const HostTensor x = random_tensor(DType::kFloat32, {kRotatedRows, kWidth}, 1);
  const HostTensor grad = random_tensor(DType::kFloat32, {kRotatedRows, kWidth}, 2);
  const HostTensor y = x.copy(), grad_x = grad.copy();
  run_rotary(y, table, false);
  run_rotary(grad_x, table, true);
  CHECK(difference(y.values(), rotary_model(x.values()), 1e-6) == "");
  CHECK(difference(grad_x.values(), numeric_gradient(rotary_model, x.values(), grad.values()),
                   2e-6) == "");
  for (int64_t row = 0; row < kRotatedRows; ++row) {  // values keep their bits
    for (int64_t i = kWidth - kSize; i < kWidth; ++i) {
      CHECK(y.at(row * kWidth + i) == x.at(row * kWidth + i));
    }
  }
}

TEST_CASE("without positions a row's place in its sequence counts", "[rotary]") {
  const HostTensor table(DType::kFloat32, {3, 2});
  make_rotary_table(10000.0, table.view());
  const HostTensor x(DType::kFloat32, {6, 6}, std::vector<double>(36, 1.0));
  reference_runner().run([&](OpContext& context) {
    rotary(context, {x.view(), 1, 1, 2, table.view(), nullptr, 3});
  });
  for (int64_t row = 0; row < 6; ++row) {
    const double angle = static_cast<double>(row % 3);
    CHECK(x.at(row * 6) == Approx(std::cos(angle) - std::sin(angle)).margin(1e-6));
    CHECK(x.at(row * 6 + 1) == Approx(std::cos(angle) + std::sin(angle)).margin(1e-6));
  }
}
