#include "engine/data/blend.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/engine/data/data_support.h"

using namespace plait;

namespace {

std::vector<int64_t> first_sets(const std::vector<double>& weights, int64_t count) {
  Blend blend(weights);
  std::vector<int64_t> sets;
  for (int64_t i = 0; i < count; ++i) sets.push_back(blend.next().set);
  return sets;
}

}  // namespace

TEST_CASE("weights .7/.2/.1 start as written", "[blend]") {
  CHECK(first_sets({.7, .2, .1}, 10) == std::vector<int64_t>{0, 0, 1, 0, 0, 2, 0, 0, 1, 0});
  CHECK(first_sets({7, 2, 1}, 10) == std::vector<int64_t>{0, 0, 1, 0, 0, 2, 0, 0, 1, 0});
}

TEST_CASE("integer weights sum to 2^32, the rest goes to the largest", "[blend]") {
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{
           {1}, {1, 1, 1}, {.7, .2, .1}, {1e-30, 1}, {3, 3, 3, 3, 1}}) {
    const Blend blend(weights);
    int64_t sum = 0;
    for (int64_t j = 0; j < blend.sets(); ++j) {
      sum += blend.weight(j);
      CHECK(blend.weight(j) >= 1);
    }
    CHECK(sum == int64_t{1} << 32);
  }
  CHECK(Blend({1, 1, 1}).weight(0) == 1431655766);
  CHECK(Blend({1, 1, 1}).weight(1) == 1431655765);
  CHECK(Blend({1e-30, 1}).weight(0) == 1);
}

TEST_CASE("no prefix is off by more than 1 - 1/D samples", "[blend]") {
  const std::vector<std::vector<double>> rows = {
      {.5, .5},        {.9, .1},         {.7, .2, .1},          {1, 1, 1},
      {.34, .33, .33}, {.5, .3, .1, .1}, {1, 2, 3, 4, 5, 6, 7}, {.97, .01, .01, .01}};
  for (const std::vector<double>& weights : rows) {
    Blend blend(weights);
    const double d = 2.0 * static_cast<double>(weights.size()) - 2;
    for (int64_t k = 1; k <= 20000; ++k) {
      const Draw draw = blend.next();
      if (draw.ordinal != blend.state().drawn[static_cast<size_t>(draw.set)] - 1) FAIL(k);
      for (int64_t j = 0; j < blend.sets(); ++j) {
        const __int128 credit =
            static_cast<__int128>(blend.weight(j)) * k -
            (static_cast<__int128>(blend.state().drawn[static_cast<size_t>(j)]) << 32);
        if (credit != blend.credit(j)) FAIL("credit at " << k);
        const double off = std::fabs(static_cast<double>(credit)) / 4294967296.0;
        if (off > 1 - 1 / d + 1e-9) FAIL("set " << j << " off by " << off << " after " << k);
      }
    }
  }
}

TEST_CASE("seeking equals drawing, forward, backward and far", "[blend]") {
  const std::vector<double> weights = {.5, .31, .19};
  Blend blend(weights);
  std::vector<BlendState> states;
  for (int64_t k = 0; k < 300000; ++k) {
    if (k % 997 == 0) states.push_back(blend.state());
    blend.next();
  }
  for (size_t i = 0; i < states.size(); ++i) {
    const BlendState& want = states[i * 7919 % states.size()];
    blend.seek(want.ordinal);
    if (blend.state().drawn != want.drawn) FAIL(want.ordinal);
  }
  Blend other(weights);
  other.seek(states.back());
  blend.seek(states.back().ordinal);
  for (int i = 0; i < 1000; ++i) CHECK(other.next().set == blend.next().set);
}

TEST_CASE("the order repeats, so far ordinals need no long replay", "[blend]") {
  Blend blend({.25, .5, .25});  // period 4
  const int64_t far = (int64_t{1} << 62) + 3;
  blend.seek(far);
  CHECK(blend.state().ordinal == far);
  CHECK(std::accumulate(blend.state().drawn.begin(), blend.state().drawn.end(), int64_t{0}) == far);
  Blend near({.25, .5, .25});
  near.seek(3);
  for (int i = 0; i < 16; ++i) CHECK(near.next().set == blend.next().set);
}

TEST_CASE("one set takes every draw", "[blend]") {
  Blend blend({3.5});
  blend.seek(3'000'000'000);
  const Draw draw = blend.next();
  CHECK(draw.set == 0);
  CHECK(draw.ordinal == 3'000'000'000);
}

TEST_CASE("bad weights and impossible states are refused", "[blend]") {
  check_error([] { Blend({}); }, "argument", {R"("sets":0)"});
  check_error([] { Blend({1, 0}); }, "argument", {R"("index":1,"got":0)"});
  check_error([] { Blend({-1, 2}); }, "argument", {R"("index":0,"got":-1)"});
  check_error([] { Blend({1, NAN}); }, "argument", {R"("index":1)"});
  check_error([] { Blend({1, INFINITY}); }, "argument", {R"("index":1)"});
  check_error([] { Blend({1e308, 1e308}); }, "argument");
  Blend blend({1, 1});
  check_error([&] { blend.seek(BlendState{4, {4, 0}}); }, "argument", {R"("ordinal":4)"});
  check_error([&] { blend.seek(BlendState{4, {2, 1}}); }, "argument");
  check_error([&] { blend.seek(BlendState{4, {4}}); }, "argument");
  check_error([&] { blend.seek(-1); }, "argument", {R"("got":-1)"});
  blend.seek(BlendState{4, {2, 2}});
  CHECK(blend.state().ordinal == 4);
}
