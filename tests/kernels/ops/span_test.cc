#include "kernels/ops/span.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "op_fixture.h"

using namespace plait;

namespace {

double run_sum_squares(const HostTensor& span) {
  double sum = -1.0;
  reference_runner().run([&](OpContext& context) { sum = sum_squares(context, span.view()); });
  return sum;
}

}  // namespace

TEST_CASE("sums of squares keep their order", "[span]") {
  for (const int64_t count : {1, 7, 8, 4095, 4096, 4097, 20000}) {
    CAPTURE(count);
    const HostTensor span = random_tensor(DType::kFloat32, {count}, 1);
    double total = 0.0;
    for (int64_t first = 0; first < count; first += 4096) {
      double lane[8] = {};
      for (int64_t i = first; i < std::min(count, first + 4096); ++i) {
        lane[(i - first) % 8] += span.at(i) * span.at(i);
      }
      total +=
          ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    }
    CHECK(run_sum_squares(span) == total);
  }
  CHECK(run_sum_squares(HostTensor(DType::kFloat32, {0})) == 0.0);
}

TEST_CASE("sums of squares neither overflow nor hide what is not finite", "[span]") {
  HostTensor span(DType::kFloat32, {5000});
  span.fill(3e38);
  CHECK(run_sum_squares(span) == Approx(5000 * 9e76).epsilon(1e-6));
  for (const double bad : {std::nan(""), double(INFINITY), -double(INFINITY)}) {
    HostTensor copy = span.copy();
    copy.set(4999, bad);
    CHECK_FALSE(std::isfinite(run_sum_squares(copy)));
  }
}

TEST_CASE("spans convert between all dtypes and add", "[span]") {
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (const DType from : dtypes) {
    for (const DType to : dtypes) {
      const HostTensor source = random_tensor(from, {77}, 1);
      const HostTensor target(to, {77});
      reference_runner().run(
          [&](OpContext& context) { convert_span(context, source.view(), target.view()); });
      CHECK(target.same_bits(source.cast(to)));
    }
  }
  for (const DType dtype : dtypes) {
    const HostTensor a = random_tensor(dtype, {77}, 1), b = random_tensor(dtype, {77}, 2);
    const HostTensor sum = b.copy();
    reference_runner().run([&](OpContext& context) { add_span(context, a.view(), sum.view()); });
    HostTensor want(DType::kFloat32, {77});
    for (int64_t i = 0; i < 77; ++i) {
      want.set(i, static_cast<float>(a.at(i)) + static_cast<float>(b.at(i)));
    }
    CHECK(sum.same_bits(want.cast(dtype)));
  }
}
