// What is not finite in one gradient, on any rank, in any stage and micro-batch: one decision of
// all ranks, and nothing but counters to tell that it happened.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/base/error.h"
#include "tests/faults/fault_cases.h"
#include "tests/faults/rank_world.h"

using namespace plait;
using namespace plait::test;

namespace {

constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()};

/// Where a gradient of a rank enters the sums of the world. What other tensor ranks hold as well,
/// and compute from equal inputs, enters on the first of them.
struct Target {
  int64_t tensor = 0;
  TensorPlace place;
};

std::vector<Target> targets_of(const Rank& rank) {
  std::vector<Target> targets;
  for (size_t i = 0; i < rank.tensors().size(); ++i) {
    for (const TensorPlace& place : rank.places(static_cast<int64_t>(i))) {
      const bool counts = place.is_first_holder || place.segment->is_partial;
      if (counts && place.segment->box.elements() > 0) {
        targets.push_back({static_cast<int64_t>(i), place});
      }
    }
  }
  return targets;
}

/// One value of one gradient of one micro-batch.
struct Poison {
  int64_t rank = 0, micro = 0;
  Target target;
  GradientUse use = GradientUse::kFirst;
  float value = 0;
  bool was_given = false;

  void operator()(const GradientEvent& event) {
    const TensorPlace& place = target.place;
    if (event.rank.rank() != rank || event.micro != micro || event.use != use) return;
    if (event.chunk != place.chunk) return;
    for (const auto& parameter : event.unit.parameters()) {
      if (parameter.get() != place.parameter) continue;
      const auto [first, count] = parameter->range(*place.segment);
      event.gradient(*parameter).as<float>()[first + count / 2] = value;
      was_given = true;
    }
  }
};

/// The trial's own tensor, use and value.
Poison poison_of(const RankWorld& world, int64_t rank, int64_t micro, size_t trial) {
  const std::vector<Target> targets = targets_of(world.rank(rank));
  Poison poison{rank, micro, targets[trial * 5 % targets.size()]};
  const auto& units =
      world.rank(rank).stages()[static_cast<size_t>(poison.target.place.chunk)]->units();
  const bool has_two = units[static_cast<size_t>(poison.target.place.unit)]->has_second_gradient();
  if (has_two && trial % 2 == 1) poison.use = GradientUse::kSecond;
  poison.value = kBad[trial % 3];
  return poison;
}

int64_t micro_batches(const RankWorld& world) {
  const LayoutConfig& layout = world.settings().layout;
  return world.settings().train.global_batch / (layout.data * layout.micro_batch);
}

/// How a precision meets what is not finite.
struct Mode {
  const char* name;
  Keys keys;
  Update::Kind kind;
};

const std::vector<Mode>& modes() {
  static const std::vector<Mode> all = {
      {"fp32", {}, Update::Kind::kNonfinite},
      {"fp16",
       {{"precision.compute", "fp16"},
        {"precision.loss_scale_start", "1024"},
        {"precision.loss_scale_hysteresis", "1000"}},
       Update::Kind::kSkipped},
      {"bf16", {{"precision.compute", "bf16"}}, Update::Kind::kNonfinite},
      {"fp32 that skips", {{"train.on_nonfinite", "skip"}}, Update::Kind::kSkipped},
  };
  return all;
}

std::vector<RankWorld::Result> step_with(RankWorld& world, const std::vector<int32_t>& rows,
                                         Poison* poison) {
  world.on_gradient([poison](const GradientEvent& event) { (*poison)(event); });
  auto results = world.step(token_batch(rows, kFaultBatch));
  world.on_gradient({});
  return results;
}

bool same_state(const WorldState& a, const WorldState& b) {
  return a.masters == b.masters && a.moment1 == b.moment1 && a.moment2 == b.moment2;
}

/// Every rank and every micro-batch in turn, each time another tensor of the rank.
void check_every_place(const Layout& layout, const Mode& mode) {
  INFO(layout.text() << " " << mode.name);
  RankWorld world(fault_config(layout, mode.keys)), clean(fault_config(layout, mode.keys));
  const std::vector<int32_t> rows = fault_rows(1), others = fault_rows(2);
  for (RankWorld* one : {&world, &clean}) {
    REQUIRE(one->step(token_batch(rows, kFaultBatch))[0].update.kind == Update::Kind::kApplied);
  }
  const std::vector<std::string> before = world.bits();
  size_t trial = 0;
  for (int64_t rank = 0; rank < world.size(); ++rank) {
    for (int64_t micro = 0; micro < micro_batches(world); ++micro, ++trial) {
      Poison poison = poison_of(world, rank, micro, trial);
      const auto results = step_with(world, others, &poison);
      const Update& update = results[0].update;
      INFO("rank " << rank << " micro-batch " << micro << " "
                   << world.rank(0).tensors()[static_cast<size_t>(poison.target.tensor)].name);
      REQUIRE(poison.was_given);
      REQUIRE(world.disagreement(results) == "");
      REQUIRE(update.kind == mode.kind);
      REQUIRE(update.sums.first_nonfinite == poison.target.tensor);
      REQUIRE_FALSE(std::isfinite(update.grad_norm));
      REQUIRE(std::isfinite(update.sums.loss));
      REQUIRE(world.bits() == before);
    }
  }
  const auto got = world.step(token_batch(others, kFaultBatch));
  const auto want = clean.step(token_batch(others, kFaultBatch));
  CHECK(world.disagreement(got) == "");
  CHECK(got[0].update.kind == Update::Kind::kApplied);
  CHECK(got[0].update.grad_norm == want[0].update.grad_norm);
  CHECK(got[0].update.lr == want[0].update.lr);
  const WorldState state = world.state();
  CHECK(state.fault == "");
  CHECK(same_state(state, clean.state()));
}

}  // namespace

TEST_CASE(
    "N1 of faults, traps 7, 39: a NaN or infinity in one gradient is one decision of all ranks",
    "[faults][nonfinite]") {
  const std::vector<Layout> layouts = fault_layouts();
  for (size_t i = 0; i < layouts.size(); ++i) {
    check_every_place(layouts[i], modes()[0]);
    check_every_place(layouts[i], modes()[1 + i % 3]);
  }
}

TEST_CASE("N2 of faults, B9, trap 39: all ranks back off alike, to the smallest scale and up again",
          "[faults][nonfinite]") {
  const Layout layout = GENERATE(degrees(2, 2, 2, 0), degrees(1, 2, 2, 2),
                                 with_sequence_parallel(degrees(2, 1, 2, 3)));
  INFO(layout.text());
  RankWorld world(fault_config(layout, {{"precision.compute", "fp16"},
                                        {"precision.loss_scale_start", "8"},
                                        {"precision.loss_scale_hysteresis", "2"},
                                        {"precision.loss_scale_window", "2"}}));
  const std::vector<int32_t> rows = fault_rows(3);
  const std::vector<std::string> before = world.bits();
  size_t trial = 0;
  const auto overflow = [&](double scale, Update::Kind kind) {
    const auto rank = static_cast<int64_t>(trial) % world.size();
    Poison poison = poison_of(world, rank, static_cast<int64_t>(trial) % 2, trial);
    const auto results = step_with(world, rows, &poison);
    ++trial;
    CHECK(world.disagreement(results) == "");
    CHECK(results[0].update.loss_scale == scale);
    CHECK(results[0].update.kind == kind);
    CHECK(world.bits() == before);
  };
  for (const double scale : {8.0, 8.0, 4.0, 2.0}) overflow(scale, Update::Kind::kSkipped);
  for (int i = 0; i < 3; ++i) overflow(1.0, Update::Kind::kScaleExhausted);
  for (const double scale : {1.0, 1.0, 2.0, 2.0, 4.0}) {
    const auto results = world.step(token_batch(rows, kFaultBatch));
    CHECK(world.disagreement(results) == "");
    CHECK(results[0].update.loss_scale == scale);
    CHECK(results[0].update.kind == Update::Kind::kApplied);
  }
  CHECK(world.rank(0).updates() == 5);
  CHECK(world.state().fault == "");
}

TEST_CASE("N3 of faults, trap 40: skipped steps count, and a spike of the loss is none",
          "[faults][nonfinite]") {
  for (const Layout& layout : {degrees(2, 2, 1), degrees(1, 2, 2, 1), degrees(2, 1, 2, 3)}) {
    INFO(layout.text());
    TestEngine engine(fault_config(layout, {{"train.on_nonfinite", "skip"}}));
    const std::vector<int32_t> rows = fault_rows(4);
    const std::string name = "layers.3.feed_forward.up.weight";
    const std::vector<float> good = read(*engine, name, TensorKind::kParam);
    std::vector<float> bad = good;
    bad.back() = std::numeric_limits<float>::quiet_NaN();
    write(*engine, name, bad);
    const std::vector<float> moments = read_all(*engine, TensorKind::kMoment1);
    for (int64_t i = 1; i <= 3; ++i) {
      const Metrics metrics = step(*engine, token_batch(rows, kFaultBatch));
      CHECK(metrics.skipped == 1);
      CHECK(metrics.skipped_total == i);
      CHECK(metrics.step == i);
      CHECK(metrics.samples_total == kFaultBatch * i);
      CHECK(engine->counter("skipped") == static_cast<double>(i));
    }
    CHECK((read_all(*engine, TensorKind::kMoment1) == moments));
    write(*engine, name, good);
    const double usual = step(*engine, token_batch(rows, kFaultBatch)).loss;
    std::vector<float> norm_weight = read(*engine, "final_norm.weight", TensorKind::kParam);
    for (float& value : norm_weight) value *= 1e4f;
    write(*engine, "final_norm.weight", norm_weight);
    const Metrics spike = step(*engine, token_batch(rows, kFaultBatch));
    CHECK(spike.skipped == 0);
    CHECK(spike.loss > 10 * usual);
    CHECK(spike.skipped_total == 3);
  }
}

TEST_CASE("N1 of faults, B10: in one process the error names step, tensor and samples",
          "[faults][nonfinite]") {
  constexpr int32_t kRare = kFaultVocabulary - 1;  // an id of the last shard that has any
  for (const Layout& layout : {degrees(2, 2, 1), degrees(1, 2, 2, 2), degrees(2, 1, 2, 3)}) {
    for (const char* compute : {"fp32", "bf16"}) {
      INFO(layout.text() << " " << compute);
      // Untied, so that nobody but the rows below looks at the rare id.
      TestEngine engine(
          fault_config(layout, {{"precision.compute", compute}, {"model.tied", "false"}}));
      std::vector<float> table = read(*engine, "embedding.token.weight", TensorKind::kParam);
      table[static_cast<size_t>(kRare) * 16 + 3] = std::numeric_limits<float>::infinity();
      write(*engine, "embedding.token.weight", table);
      const std::vector<float> before = read_all(*engine, TensorKind::kParam);
      for (const int64_t row : {0, 3, 7}) {  // of the first data rank and of the last
        std::vector<int32_t> rows = random_rows(kFaultBatch, kFaultSequence + 1, kRare, 5);
        CHECK_NOTHROW(evaluate(*engine, token_batch(rows, kFaultBatch)));
        rows[static_cast<size_t>(row * (kFaultSequence + 1) + 2)] = kRare;
        try {
          step(*engine, token_batch(rows, kFaultBatch));
          FAIL("the step went through");
        } catch (const Error& error) {
          INFO(error.message());
          CHECK(error.word() == "nonfinite_loss");
          CHECK(error.disposition() == Disposition::kUnchanged);
          CHECK(error.message().find("step=1 ") != std::string::npos);
          CHECK(error.message().find("samples=8") != std::string::npos);
        }
        CHECK((read_all(*engine, TensorKind::kParam) == before));
      }
      CHECK(engine->state() == EngineState::kReady);
    }
  }
}
