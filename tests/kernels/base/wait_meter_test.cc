#include "kernels/base/wait_meter.h"

#include <catch2/catch.hpp>

using namespace plait;

TEST_CASE("a wait leaves out the time in which its process stood still", "[wait]") {
  constexpr int64_t kMs = 1'000'000;
  WaitMeter meter(5 * kMs);
  CHECK(meter.passed_ms(5 * kMs) == 0);
  CHECK(meter.passed_ms(105 * kMs) == 100);
  CHECK(meter.passed_ms(1105 * kMs) == 1100);  // a gap of a second still counts whole
  CHECK(meter.passed_ms(600'000 * kMs) == 2100);
  CHECK(meter.passed_ms(600'100 * kMs) == 2200);
}
