#include "kernels/base/random.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace plait;

TEST_CASE("Philox4x32-10 gives the published vectors", "[random]") {
  CHECK(philox({0, 0}, {0, 0, 0, 0}) ==
        PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u}, {~0u, ~0u, ~0u, ~0u}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("initial weights of a named stream", "[random]") {
  const PhiloxKey key = stream_key("init/layers.0.attention.query.weight", 1234);
  CHECK(key == PhiloxKey{0x7548497d, 0x7eb63f86});
  CHECK(philox(key, {0, 0, 0, 0}) == PhiloxBlock{0x02699e9d, 0xb7cae7a7, 0x61cf5380, 0x03f21b54});
  float weights[4];
  fill_normal(key, 0.02, 0, 4, weights);
  CHECK(weights[0] == Approx(-0.01222225).epsilon(1e-6));
  CHECK(weights[1] == Approx(-0.05985150).epsilon(1e-6));
  CHECK(weights[2] == Approx(0.02761386).epsilon(1e-6));
  CHECK(weights[3] == Approx(0.00268259).epsilon(2e-6));
}

TEST_CASE("any cut of a stream gives the same elements", "[random]") {
  const PhiloxKey key = stream_key("init/x", 7);
  float whole[37], parts[37];
  fill_normal(key, 1.0, 0, 37, whole);
  fill_normal(key, 1.0, 0, 5, parts);
  fill_normal(key, 1.0, 5, 13, parts + 5);
  fill_normal(key, 1.0, 18, 19, parts + 18);
  for (int i = 0; i < 37; ++i) CHECK(whole[i] == parts[i]);
}

TEST_CASE("the in-tree normals equal libm's to rounding", "[random]") {
  for (uint32_t i = 0; i < 20000; ++i) {
    const PhiloxBlock words = philox({i, 5}, {i * 2654435761u, i, 0, 0});
    const std::array<double, 4> normals = normal_block(words);
    const double u0 = (words[0] + 0.5) * 0x1p-32, u1 = (words[1] + 0.5) * 0x1p-32;
    const double radius = std::sqrt(-2 * std::log(u0));
    if (std::fabs(normals[0] - radius * std::cos(2 * M_PI * u1)) > 1e-14 * (1 + radius)) FAIL(i);
    if (std::fabs(normals[1] - radius * std::sin(2 * M_PI * u1)) > 1e-14 * (1 + radius)) FAIL(i);
  }
}

TEST_CASE("dropout masks follow the published vector", "[random]") {
  const PhiloxKey key = stream_key("dropout/layers.3.feed_forward.output", 1234);
  CHECK(key == PhiloxKey{0xc0d82880, 0xd4f446b2});
  const Dropout dropout = Dropout::make(key, 0.1, 0);
  CHECK(philox(key, {5, 0, 7, 0}) == PhiloxBlock{0x35c127e8, 0x2468218a, 0x4a3232d9, 0x16caf170});
  for (uint64_t x = 20; x < 23; ++x) CHECK(dropout_factor(dropout, 7, x) > 1.0f);
  CHECK(dropout_factor(dropout, 7, 23) == 0.0f);
}
