// Batches without targets: all of them, those of one data rank, those of some micro-batches.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/faults/fault_cases.h"
#include "tests/faults/rank_world.h"

using namespace plait;
using namespace plait::test;

namespace {

struct MaskedRows {
  std::vector<int32_t> tokens = random_rows(kFaultBatch, kFaultSequence, kFaultVocabulary, 21);
  std::vector<int32_t> targets = random_rows(kFaultBatch, kFaultSequence, kFaultVocabulary, 22);

  void mask(int64_t first_row, int64_t rows) {
    for (int64_t i = first_row * kFaultSequence; i < (first_row + rows) * kFaultSequence; ++i) {
      targets[static_cast<size_t>(i)] = -1;
    }
  }
  Batch batch() const { return target_batch(tokens, targets, kFaultBatch); }
};

struct MaskedRun {
  Metrics metrics;
  std::vector<float> moments, weights;
};

MaskedRun one_step(const Layout& layout, const MaskedRows& rows) {
  TestEngine engine(fault_config(layout));
  MaskedRun trained;
  trained.metrics = step(*engine, rows.batch());
  trained.moments = read_all(*engine, TensorKind::kMoment1);
  trained.weights = read_all(*engine, TensorKind::kParam);
  return trained;
}

}  // namespace

TEST_CASE("N4 of faults, trap 1: a batch with all targets masked is skipped on all ranks",
          "[faults][masked]") {
  MaskedRows rows;
  rows.mask(0, kFaultBatch);
  for (const Layout& layout : fault_layouts()) {
    const char* compute = layout.zero % 2 == 0 ? "fp32" : "bf16";
    INFO(layout.text() << " " << compute);
    RankWorld world(fault_config(layout, {{"precision.compute", compute}}));
    REQUIRE(world.step(token_batch(fault_rows(23), kFaultBatch))[0].update.kind ==
            Update::Kind::kApplied);
    const std::vector<std::string> before = world.bits();
    const auto results = world.step(rows.batch());
    CHECK(world.disagreement(results) == "");
    CHECK(results[0].update.kind == Update::Kind::kSkipped);
    CHECK(results[0].update.sums.loss == 0.0);
    CHECK(results[0].update.sums.targets == 0);
    CHECK(results[0].update.grad_norm == 0.0);
    CHECK(world.bits() == before);
    const auto next = world.step(token_batch(fault_rows(24), kFaultBatch));
    CHECK(next[0].update.kind == Update::Kind::kApplied);
    CHECK(world.state().fault == "");
  }
}

TEST_CASE("N4 of faults: the engine reports a batch without targets as a skipped step",
          "[faults][masked]") {
  MaskedRows rows;
  rows.mask(0, kFaultBatch);
  for (const Layout& layout : {degrees(2, 2, 1), degrees(1, 2, 2, 2), degrees(2, 1, 2, 3)}) {
    INFO(layout.text());
    TestEngine engine(fault_config(layout));
    const std::vector<float> before = read_all(*engine, TensorKind::kParam);
    const Metrics metrics = step(*engine, rows.batch());
    CHECK(metrics.loss == 0.0);
    CHECK(metrics.grad_norm == 0.0);
    CHECK(metrics.skipped == 1);
    CHECK(metrics.targets == 0);
    CHECK(metrics.step == 1);
    CHECK(metrics.samples_total == kFaultBatch);
    CHECK((read_all(*engine, TensorKind::kParam) == before));
    const Metrics evaluated = evaluate(*engine, rows.batch());
    CHECK(evaluated.loss == 0.0);
    CHECK(evaluated.targets == 0);
    CHECK(step(*engine, token_batch(fault_rows(25), kFaultBatch)).skipped == 0);
  }
}

TEST_CASE("N4 of faults, trap 1: ranks and micro-batches without targets only count less",
          "[faults][masked]") {
  // Rows of the first data rank, of the last, and every other micro-batch.
  MaskedRows first, last, alternate;
  first.mask(0, kFaultBatch / 2);
  last.mask(kFaultBatch / 2, kFaultBatch / 2);
  for (int64_t row = 0; row < kFaultBatch; row += 2) alternate.mask(row, 1);
  for (const MaskedRows* rows : {&first, &last, &alternate}) {
    const MaskedRun want = one_step(degrees(1, 1, 1), *rows);
    REQUIRE(want.metrics.targets == kFaultBatch / 2 * kFaultSequence);
    for (const Layout& layout : fault_layouts()) {
      INFO(layout.text() << ", masked " << (rows == &first ? "first" : "last or alternate"));
      const MaskedRun got = one_step(layout, *rows);
      CHECK(got.metrics.skipped == 0);
      CHECK(got.metrics.targets == want.metrics.targets);
      CHECK(got.metrics.loss == Approx(want.metrics.loss).epsilon(1e-5));
      CHECK(got.metrics.grad_norm == Approx(want.metrics.grad_norm).epsilon(1e-5));
      CHECK(relative_difference(got.moments, want.moments) < 1e-5);
    }
  }
}
