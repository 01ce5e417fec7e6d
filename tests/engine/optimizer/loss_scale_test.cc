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

TEST_CASE("a restored scale goes on as the one that it was taken from, at any point",
          "[loss_scale]") {
  const auto turn = [](LossScale* scale, int step) {
    // Overflows in runs of one to four, clean steps between them.
    if (step % 7 < step % 5) {
      scale->overflow();
    } else {
      for (int i = 0; i < 300; ++i) scale->clean_step();
    }
    return scale->scale();
  };
  LossScale whole = dynamic_scale();
  for (int step = 0; step < 60; ++step) {
    LossScale resumed = dynamic_scale(), again = whole;
    resumed.restore(whole.state());
    for (int more = step; more < step + 20; ++more) {
      REQUIRE(turn(&resumed, more) == turn(&again, more));
    }
    turn(&whole, step);
  }
  whole.restart();
  CHECK(whole.scale() == 65536);
  CHECK(whole.state().hysteresis_left == 2);
  LossScale constant{LossScale::Options()};
  constant.restore({128, 3, 1});
  CHECK(constant.scale() == 1.0);
}
