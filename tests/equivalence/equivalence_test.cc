// The same curve whatever the layout: losses, norms and every weight of a run in any layout against
// the run on one rank, to the bit where the numerics contract promises it, and the oracle's curve.
// Prints a table row for each point.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "kernels/base/error.h"
#include "tests/equivalence/curves.h"
#include "tests/support/oracle_case.h"

using namespace plait;
using namespace plait::test;

namespace {

#ifndef PLAIT_MATRIX_STEP
#define PLAIT_MATRIX_STEP 1
#endif

/// The whole product in the soak run, a pairwise selection otherwise.
std::vector<Layout> points(const Model& model) {
  const std::vector<Layout> all = admitted(model.sizes, 16);
  if (std::getenv("PLAIT_FULL_MATRIX") != nullptr) return all;
  const std::vector<Layout> pairs = pairwise(all);
  std::vector<Layout> some;
  for (size_t i = 0; i < pairs.size(); i += PLAIT_MATRIX_STEP) some.push_back(pairs[i]);
  return some;
}

void check_points(const Model& model) {
  References references;
  std::printf("| %s | loss | norm | weights | bits |\n", model.name);
  for (const Layout& layout : points(model)) {
    INFO(model.name << " " << layout.text());
    const Verdict verdict = judge(model, layout, references);
    CHECK(verdict.failure == "");
    std::printf("| %s | %.0e | %.0e | %.0e | %s |\n", layout.text().c_str(), verdict.loss,
                verdict.norm, verdict.weights,
                verdict.failure.empty() ? "equal" : verdict.failure.c_str());
  }
}

}  // namespace

TEST_CASE("every layout trains the curve of one rank: gpt2", "[matrix]") {
  check_points(models()[0]);
}

TEST_CASE("every layout trains the curve of one rank: llama", "[matrix]") {
  check_points(models()[1]);
}

TEST_CASE("every layout trains the curve of one rank: tied llama, one key/value head", "[matrix]") {
  check_points(models()[2]);
}

TEST_CASE("canonical sums: every layout trains the very curve of one rank: gpt2", "[matrix]") {
  check_points(models()[3]);
}

TEST_CASE("canonical sums: every layout trains the very curve of one rank: llama, bf16",
          "[matrix]") {
  check_points(models()[4]);
}

TEST_CASE("layouts hold the oracle's curve", "[matrix]") {
  const std::string name = GENERATE("gpt2_tiny", "llama_tiny", "gpt2_clip_schedule");
  struct Row {
    int64_t t, p, d, v, z;
    bool sp;
  };
  const Row row =
      GENERATE(Row{2, 1, 1, 1, 0, false}, Row{2, 1, 1, 1, 0, true}, Row{1, 2, 1, 1, 0, false},
               Row{1, 2, 1, 2, 0, false}, Row{1, 1, 2, 1, 1, false}, Row{1, 1, 4, 1, 3, false},
               Row{2, 2, 2, 1, 1, true}, Row{2, 2, 2, 2, 1, false}, Row{1, 4, 2, 1, 2, false},
               Row{4, 2, 1, 2, 0, true});
  const OracleCase oracle = load_case(name);
  Layout layout;
  layout.tensor = row.t;
  layout.pipeline = row.p;
  layout.data = row.d;
  layout.interleave = row.v;
  layout.zero = row.z;
  layout.is_sequence_parallel = row.sp;
  INFO(name << " " << layout.text());
  Config config = oracle.config;
  for (const auto& [key, value] : layout.keys()) config.set(key, value);
  if (config.get_integer("model.heads") % row.t != 0) {
    // The refusal names both numbers.
    try {
      const TestEngine refused(config);
      FAIL("the layout was taken");
    } catch (const Error& error) {
      CHECK(error.word() == "argument");
      CHECK(error.message().find("model.heads") != std::string::npos);
      CHECK(error.message().find("layout.tensor") != std::string::npos);
    }
    return;
  }
  const std::unique_ptr<TestEngine> engine = make_engine(oracle, config);
  for (int64_t i = 0; i < oracle.steps; ++i) {
    const Metrics metrics = train_step(**engine, oracle, i);
    const nlohmann::json& want = oracle.expected["steps"][static_cast<size_t>(i)];
    INFO("step " << i + 1);
    REQUIRE(metrics.loss == Approx(want["loss"].get<double>()).epsilon(2e-5));
    REQUIRE(metrics.grad_norm == Approx(want["grad_norm"].get<double>()).epsilon(2e-4));
  }
}
