#include "engine/optimizer/loss_scale.h"

#include <catch2/catch.hpp>

using namespace plait;

namespace {

LossScale dynamic_scale() {
  LossScale::Options options;
  options.is_dynamic = true;
  options.start = 65536;
  return LossScale(options);
}

}  // namespace

TEST_CASE("N2 of faults, trap 39: a back-off needs the hysteresis used up, and does not refill it",
          "[loss_scale]") {
  LossScale scale = dynamic_scale();
  const double want[] = {65536, 32768, 16384, 8192};
  for (double value : want) {
    CHECK(scale.overflow());
    CHECK(scale.scale() == value);
  }
}

TEST_CASE("a window of clean steps doubles the scale up to its maximum and refills",
          "[loss_scale]") {
  LossScale scale = dynamic_scale();
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 999; ++i) scale.clean_step();
    const double before = scale.scale();
    scale.clean_step();
    CHECK(scale.scale() == std::min(2 * before, 16777216.0));
  }
  CHECK(scale.overflow());
  CHECK(scale.scale() == 16777216.0);
  CHECK(scale.overflow());
  CHECK(scale.scale() == 8388608.0);
}

TEST_CASE("an overflow breaks the window", "[loss_scale]") {
  LossScale scale = dynamic_scale();
  for (int i = 0; i < 999; ++i) scale.clean_step();
  scale.overflow();
  scale.clean_step();
  CHECK(scale.scale() == 65536);
}

TEST_CASE("N2 of faults: at the minimum a due back-off is refused", "[loss_scale]") {
  LossScale scale = dynamic_scale();
  int steps = 0;
  while (scale.overflow()) ++steps;
  CHECK(scale.scale() == 1.0);
  CHECK(steps == 17);
}

TEST_CASE("a constant scale never moves", "[loss_scale]") {
  LossScale::Options options;
  options.start = 128;
  LossScale scale(options);
  for (int i = 0; i < 5000; ++i) {
    scale.clean_step();
    CHECK(scale.overflow());
  }
  CHECK(scale.scale() == 128);
}
