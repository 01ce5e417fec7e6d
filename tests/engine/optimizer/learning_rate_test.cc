#include "engine/optimizer/learning_rate.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace plait;
using Kind = LearningRate::Kind;
using Tail = LearningRate::Tail;

TEST_CASE("cosine from 1e-3 to 1e-4, warm-up 10, end 110", "[learning_rate]") {
  const LearningRate rate{Kind::kCosine, Tail::kLinear, 1e-3, 1e-4, 10, 110, 0};
  CHECK(rate.at(5) == Approx(5e-4).epsilon(1e-12));
  CHECK(rate.at(10) == Approx(1e-3).epsilon(1e-12));
  CHECK(rate.at(60) == Approx(5.5e-4).epsilon(1e-12));
  CHECK(rate.at(100) == Approx(1.220246e-4).epsilon(1e-6));
  for (int64_t n : {110, 111, 200, 330}) CHECK(rate.at(n) == 1e-4);
}

TEST_CASE("S1: the warm-up is not subtracted twice", "[learning_rate]") {
  const LearningRate rate{Kind::kCosine, Tail::kLinear, 1.0, 0.0, 22, 220, 0};
  CHECK(rate.at(198) == Approx(0.030154).margin(5e-7));
}

TEST_CASE("S2, S3: the last step trains at the minimum, and the rate stays there",
          "[learning_rate]") {
  const Kind kind = GENERATE(Kind::kLinear, Kind::kCosine, Kind::kWsd);
  const Tail tail = GENERATE(Tail::kLinear, Tail::kCosine, Tail::kExponential, Tail::kSqrt);
  const LearningRate rate{kind, tail, 3e-3, 2e-5, 5, 100, 40};
  CHECK(rate.at(1) == Approx(3e-3 / 5).epsilon(1e-12));
  CHECK(rate.at(2) == Approx(3e-3 * 2 / 5).epsilon(1e-12));
  for (int64_t n : {100, 150, 300}) CHECK(std::fabs(rate.at(n) - 2e-5) < 1e-12);
  double last = rate.at(5);
  for (int64_t n = 6; n <= 300; ++n) {
    CHECK(rate.at(n) <= last);
    last = rate.at(n);
  }
  CHECK(rate.at(99) > 2e-5);
}

TEST_CASE("WSD holds its rate until the tail", "[learning_rate]") {
  const LearningRate rate{Kind::kWsd, Tail::kExponential, 1.0, 0.0, 10, 100, 20};
  CHECK(rate.at(11) == 1.0);
  CHECK(rate.at(80) == 1.0);
  CHECK(rate.at(90) == Approx(2 * std::pow(0.5, 0.5) - 1));
  const LearningRate root{Kind::kWsd, Tail::kSqrt, 1.0, 0.0, 10, 100, 20};
  CHECK(root.at(85) == Approx(1 - std::sqrt(0.25)));
}

TEST_CASE("constant has a warm-up and no end", "[learning_rate]") {
  const LearningRate rate{Kind::kConstant, Tail::kLinear, 2.0, 0.0, 4, 0, 0};
  CHECK(rate.at(1) == 0.5);
  CHECK(rate.at(4) == 2.0);
  CHECK(rate.at(int64_t{1} << 40) == 2.0);
}
