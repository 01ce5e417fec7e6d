#include "kernels/ops/adamw.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "op_fixture.h"

using namespace plait;

namespace {

/// One tensor's optimizer state.
struct Span {
  HostTensor master, moment1, moment2, gradient, weight;

  Span(int64_t count, DType dtype)
      : master(DType::kFloat32, {count}),
        moment1(DType::kFloat32, {count}),
        moment2(DType::kFloat32, {count}),
        gradient(DType::kFloat32, {count}),
        weight(dtype, {count}) {
    moment1.fill(0.0);
    moment2.fill(0.0);
  }

  /// Update number n over [first, first + count).
  void update(int n, AdamW arguments, int64_t first, int64_t count) {
    arguments.master = master.view().slice_rows(first, count);
    arguments.moment1 = moment1.view().slice_rows(first, count);
    arguments.moment2 = moment2.view().slice_rows(first, count);
    arguments.gradient = gradient.view().slice_rows(first, count);
    arguments.weight = weight.view().slice_rows(first, count);
    arguments.correction1 =
        static_cast<float>(1.0 - std::pow(static_cast<double>(arguments.beta1), n));
    arguments.correction2 =
        static_cast<float>(1.0 - std::pow(static_cast<double>(arguments.beta2), n));
    Workspace workspace;
    workspace.allocate(nullptr);
    OpContext context{reference_runner().device(), reference_runner().kernels(), workspace};
    adamw(context, arguments);
  }
};

}  // namespace

TEST_CASE("AdamW gives the published values", "[adamw]") {
  Span span(3, DType::kFloat32);
  span.master.fill(1.0);
  span.gradient.fill(0.5);
  AdamW arguments;
  arguments.lr = 0.01f;
  arguments.decay = 0.1f;
  const double want[] = {0.9890000002, 0.9780110004, 0.9670329896};
  for (int n = 1; n <= 3; ++n) {
    span.update(n, arguments, 0, 3);
    for (int64_t i = 0; i < 3; ++i) CHECK(std::fabs(span.master.at(i) - want[n - 1]) < 1.5e-7);
    CHECK(span.weight.same_bits(span.master));
  }
}

TEST_CASE("two long tensors of ones move by the rate", "[adamw]") {
  for (const int64_t count : {int64_t{1048576}, int64_t{1000003}}) {
    Span span(count, DType::kFloat32);
    span.master.fill(1.0);
    span.gradient.fill(1.0);
    AdamW arguments;
    arguments.lr = 0.01f;
    for (int n = 1; n <= 3; ++n) {
      span.update(n, arguments, 0, count);
      for (int64_t i = 0; i < count; ++i) {
        if (std::fabs(span.master.at(i) - (1.0 - 0.01 * n)) > 3e-7) FAIL(count << " at " << i);
      }
    }
  }
}

TEST_CASE("no cut of the span changes a bit", "[adamw]") {
  constexpr int64_t kCount = 40007;
  const HostTensor start = random_tensor(DType::kFloat32, {kCount}, 1);
  std::vector<Span> spans;
  for (const int64_t chunk : {int64_t{256}, int64_t{16384}, kCount, int64_t{37}}) {
    Span span(kCount, DType::kBFloat16);
    for (int64_t i = 0; i < kCount; ++i) span.master.set(i, start.at(i));
    AdamW arguments;
    arguments.lr = 3e-3f;
    arguments.decay = 0.1f;
    arguments.gradient_scale = 0.37f;
    for (int n = 1; n <= 20; ++n) {
      span.gradient = random_tensor(DType::kFloat32, {kCount}, 100 + static_cast<uint64_t>(n));
      for (int64_t first = 0; first < kCount; first += chunk) {
        span.update(n, arguments, first, std::min(chunk, kCount - first));
      }
    }
    spans.push_back(span);
  }
  for (const Span& span : spans) {
    CHECK(span.master.same_bits(spans[0].master));
    CHECK(span.moment1.same_bits(spans[0].moment1));
    CHECK(span.moment2.same_bits(spans[0].moment2));
    CHECK(span.weight.same_bits(span.master.cast(DType::kBFloat16)));
  }
}

TEST_CASE("a bfloat16 weight keeps its small updates in the master", "[adamw]") {
  Span span(1, DType::kBFloat16);
  span.master.fill(1.0);
  span.gradient.fill(1.0);
  AdamW arguments;
  arguments.lr = 1e-3f;
  for (int n = 1; n <= 10; ++n) span.update(n, arguments, 0, 1);
  CHECK(span.master.at(0) == Approx(0.99).margin(1e-6));
  CHECK(span.weight.at(0) == Approx(0.988281).margin(1e-6));  // the nearest bfloat16
}

TEST_CASE("AdamW equals the formula in fp64", "[adamw]") {
  constexpr int64_t kCount = 101;
  Span span(kCount, DType::kFloat32);
  for (int64_t i = 0; i < kCount; ++i) span.master.set(i, 0.01 * static_cast<double>(i) - 0.5);
  std::vector<double> theta = span.master.values(), m(kCount), s(kCount);
  AdamW a;
  a.lr = 1e-2f;
  a.decay = 0.1f;
  a.gradient_scale = 0.5f;
  for (int n = 1; n <= 5; ++n) {
    span.gradient = random_tensor(DType::kFloat32, {kCount}, static_cast<uint64_t>(n));
    span.update(n, a, 0, kCount);
    for (size_t i = 0; i < theta.size(); ++i) {
      const double g = 0.5 * span.gradient.at(static_cast<int64_t>(i));
      m[i] = 0.9 * m[i] + 0.1 * g;
      s[i] = 0.95 * s[i] + 0.05 * g * g;
      const double mean = m[i] / (1 - std::pow(0.9, n));
      const double root = std::sqrt(s[i] / (1 - std::pow(0.95, n)));
      theta[i] -= 1e-2 * (mean / (root + 1e-8) + 0.1 * theta[i]);
    }
  }
  CHECK(difference(span.master.values(), theta, 1e-6) == "");
}
