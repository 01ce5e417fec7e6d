// Instruction-set levels, floating-point modes and threads of the host.
#include <xmmintrin.h>
#include <catch2/catch.hpp>
#include <cfenv>
#include <cmath>
#include <thread>

#include <nlohmann/json.hpp>

#include "kernels/device/isa.h"
#include "tests/support/tiny_model.h"

using namespace plait;
using namespace plait::test;

namespace {

struct FirstStep {
  double loss = 0;
  std::vector<float> gradients;
  std::string level;
};

FirstStep first_step(const std::string& isa, const std::string& compute) {
  TestEngine engine(tiny_config({{"isa", isa},
                                 {"precision.compute", compute},
                                 {"model.hidden", "64"},
                                 {"train.global_batch", "2"}}));
  const std::vector<int32_t> rows = random_rows(2, 17, 61, 1);
  FirstStep result;
  result.loss = forward_backward(*engine, token_batch(rows, 2)).loss;
  result.gradients = read_all(*engine, TensorKind::kGradient);
  result.level = nlohmann::json::parse(engine->report("kernels"))["isa"];
  return result;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0;
  for (size_t i = 0; i < a.size(); ++i) dot += static_cast<double>(a[i]) * b[i];
  return dot / (norm(a) * norm(b));
}

}  // namespace

TEST_CASE("B6, I3: every level of instructions gives the same training", "[machine]") {
  const FirstStep want = first_step("auto", "fp32");
  for (int i = 0; i <= static_cast<int>(detected_isa().level); ++i) {
    const std::string level = isa_name(static_cast<IsaLevel>(i));
    INFO(level);
    const FirstStep fp32 = first_step(level, "fp32");
    CHECK(fp32.level == level);
    CHECK(fp32.loss == Approx(want.loss).epsilon(1e-5));
    CHECK(relative_difference(fp32.gradients, want.gradients) < 1e-4);
    const FirstStep bf16 = first_step(level, "bf16");
    CHECK(bf16.loss == Approx(want.loss).epsilon(2e-2));
    CHECK(cosine(bf16.gradients, want.gradients) > 0.999);
  }
}

TEST_CASE("the host's rounding mode and flush-to-zero change nothing and stay", "[machine]") {
  const FirstStep want = first_step("auto", "fp32");
  const unsigned before = _mm_getcsr();
  std::fesetround(FE_UPWARD);
  _mm_setcsr(_mm_getcsr() | 0x8040u);
  const unsigned changed = _mm_getcsr();
  const FirstStep got = first_step("auto", "fp32");
  CHECK((_mm_getcsr() & ~0x3Fu) == (changed & ~0x3Fu));
  CHECK(std::fegetround() == FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  _mm_setcsr(before);
  CHECK(got.loss == want.loss);
  CHECK((got.gradients == want.gradients));
}

TEST_CASE("an engine may be driven from any thread", "[machine]") {
  TestEngine engine(tiny_config()), other(tiny_config());
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 2);
  double loss = 0;
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { loss = step(*engine, token_batch(rows, 4)).loss; }).join();
    CHECK(step(*other, token_batch(rows, 4)).loss == loss);
  }
}
