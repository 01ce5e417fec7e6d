// What goes wrong on the pipeline axis: scales, norms, layers, orders that need room in the lanes.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/faults/fault_cases.h"
#include "tests/faults/rank_world.h"

using namespace plait;
using namespace plait::test;

namespace {

using Text = std::string;

std::vector<int32_t> rows_part(const std::vector<int32_t>& rows, int64_t first, int64_t count) {
  return {rows.begin() + first * (kFaultSequence + 1),
          rows.begin() + (first + count) * (kFaultSequence + 1)};
}

struct Masked {
  std::vector<int32_t> tokens, targets;
};

/// Rows with more masked targets from row to row.
Masked masked_rows(int64_t count, uint64_t seed) {
  Masked rows{random_rows(count, kFaultSequence, kFaultVocabulary, seed),
              random_rows(count, kFaultSequence, kFaultVocabulary, seed + 1)};
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < row % kFaultSequence; ++i) {
      rows.targets[static_cast<size_t>(row * kFaultSequence + i)] = -1;
    }
  }
  return rows;
}

struct PipelineRun {
  double loss = 0, norm = 0;
  std::vector<float> moments, weights;
  bool operator==(const PipelineRun&) const = default;
};

PipelineRun one_step(const Config& config, const Batch& batch) {
  TestEngine engine(config);
  const Metrics metrics = step(*engine, batch);
  return {metrics.loss, metrics.grad_norm, read_all(*engine, TensorKind::kMoment1),
          read_all(*engine, TensorKind::kParam)};
}

}  // namespace

TEST_CASE("P1, trap 2: calls that accumulate do not rescale what is there", "[faults][pipeline]") {
  const std::vector<int32_t> rows = fault_rows(301, 12);
  const auto keys = [](int64_t batch) {
    return Keys{{"train.global_batch", std::to_string(batch)}};
  };
  TestEngine whole(fault_config(degrees(1, 1, 1), keys(12)));
  const Metrics want = forward_backward(*whole, token_batch(rows, 12));
  const std::vector<float> gradients = read_all(*whole, TensorKind::kGradient);
  const Metrics want_step = optimizer_step(*whole);
  for (const Layout& layout :
       {degrees(1, 2, 1), with_chunks(degrees(1, 2, 1), 2), degrees(1, 2, 2, 2),
        with_schedule(degrees(1, 2, 1), "zero_bubble"), degrees(2, 2, 1)}) {
    INFO(layout.text());
    TestEngine engine(fault_config(layout, keys(4)));
    Metrics got;
    for (int64_t call = 0; call < 3; ++call) {
      const std::vector<int32_t> some = rows_part(rows, 4 * call, 4);
      got = forward_backward(*engine, token_batch(some, 4));
    }
    CHECK(got.loss == Approx(want.loss).epsilon(1e-6));
    CHECK(relative_difference(read_all(*engine, TensorKind::kGradient), gradients) < 1e-5);
    const Metrics update = optimizer_step(*engine);
    CHECK(update.grad_norm == Approx(want_step.grad_norm).epsilon(1e-5));
    CHECK(relative_difference(read_all(*engine, TensorKind::kParam),
                              read_all(*whole, TensorKind::kParam)) < 1e-5);
  }
}

TEST_CASE("P2, trap 4: micro-batches of another size leave the norm", "[faults][pipeline]") {
  const std::vector<int32_t> rows = fault_rows(302, 32);
  const Batch batch = token_batch(rows, 32);
  const auto norm_of = [&](int64_t pipeline, int64_t micro) {
    Layout layout = degrees(1, pipeline, 1);
    layout.micro_batch = micro;
    return one_step(fault_config(layout, {{"train.global_batch", "32"}}), batch).norm;
  };
  const double want = norm_of(1, 32);
  for (const int64_t micro : {8, 2}) {
    CHECK(norm_of(2, micro) == Approx(want).epsilon(1e-5));
    CHECK(norm_of(4, micro) == Approx(want).epsilon(1e-5));
  }
}

TEST_CASE("P3, traps 1, 4: gradients are divided by the targets of the whole batch, once",
          "[faults][pipeline]") {
  const Masked rows = masked_rows(kFaultBatch, 303);
  const Keys keys = {{"optimizer.clip_grad_norm", "0"}, {"optimizer.lr", "1e-7"}};
  const Batch batch = target_batch(rows.tokens, rows.targets, kFaultBatch);
  const PipelineRun want = one_step(fault_config(degrees(1, 1, 1), keys), batch);
  for (const Layout& layout : fault_layouts()) {
    INFO(layout.text());
    const PipelineRun got = one_step(fault_config(layout, keys), batch);
    CHECK(got.loss == Approx(want.loss).epsilon(1e-5));
    CHECK(got.norm == Approx(want.norm).epsilon(1e-5));
    CHECK(relative_difference(got.moments, want.moments) < 1e-5);
  }
}

TEST_CASE("P4, traps 5, 7, 8: all stages clip by one factor, of one norm", "[faults][pipeline]") {
  const std::vector<int32_t> rows = fault_rows(304);
  const Batch batch = token_batch(rows, kFaultBatch);
  const auto with_limit = [&](const Layout& layout, const char* limit) {
    return one_step(fault_config(layout, {{"optimizer.clip_grad_norm", limit}}), batch);
  };
  const PipelineRun alone = with_limit(degrees(1, 1, 1), "0.01");
  for (const Layout& layout :
       {degrees(1, 4, 1), degrees(1, 2, 1), with_chunks(degrees(1, 2, 1), 2)}) {
    INFO(layout.text());
    const PipelineRun clipped = with_limit(layout, "0.01"), whole = with_limit(layout, "0");
    REQUIRE(whole.norm > 0.02);
    CHECK(clipped.norm == whole.norm);
    CHECK(clipped == alone);  // the bits of one rank
    const double factor = 0.01 / (whole.norm + 1e-6);
    std::vector<float> scaled = whole.moments;
    for (float& value : scaled) value = static_cast<float>(factor * value);
    CHECK(relative_difference(clipped.moments, scaled) < 1e-6);
  }
}

TEST_CASE("P6, traps 24, 25: every schedule finishes where a lane holds one message",
          "[faults][pipeline]") {
  const std::vector<int32_t> rows = fault_rows(306);
  const auto config = [](const Layout& layout, int64_t micro_batches) {
    return fault_config(layout, {{"model.layers", "12"},
                                 {"model.hidden", "8"},
                                 {"model.heads", "2"},
                                 {"model.feed_forward", "8"},
                                 {"train.global_batch", std::to_string(micro_batches)}});
  };
  std::map<int64_t, PipelineRun> alone;
  size_t number = 0;
  const auto check_layout = [&](const Layout& layout, int64_t micro_batches) {
    if (number++ % kCaseStep != 0) return;
    const std::vector<int32_t> some = rows_part(rows, 0, micro_batches);
    const Batch batch = token_batch(some, micro_batches);
    PipelineRun& want = alone[micro_batches];
    if (want.weights.empty()) want = one_step(config(degrees(1, 1, 1), micro_batches), batch);
    INFO(layout.text() << ", " << micro_batches << " micro-batches");
    CHECK(one_step(config(layout, micro_batches), batch) == want);
  };
  for (const int64_t pipeline : {2, 3, 4}) {
    for (int64_t micro_batches = 1; micro_batches <= 8; ++micro_batches) {
      for (const char* schedule : {"one_forward_one_backward", "gpipe", "zero_bubble"}) {
        check_layout(with_schedule(degrees(1, pipeline, 1), schedule), micro_batches);
      }
      if (micro_batches % pipeline != 0) continue;
      for (const int64_t chunks : {2, 3}) {
        check_layout(with_chunks(degrees(1, pipeline, 1), chunks), micro_batches);
      }
    }
  }
}

TEST_CASE("P7, trap 23: every layer is held once, whatever the chunks", "[faults][pipeline]") {
  struct CutCase {
    int64_t layers, pipeline, chunks;
  };
  for (const CutCase& one : {CutCase{24, 4, 2}, {24, 4, 3}, {8, 2, 2}, {10, 4, 2}, {7, 3, 1}}) {
    INFO(one.layers << " layers, " << one.pipeline << " stages, " << one.chunks << " chunks");
    TestEngine engine(fault_config(with_chunks(degrees(1, one.pipeline, 1), one.chunks),
                                   {{"model.layers", std::to_string(one.layers)},
                                    {"model.hidden", "8"},
                                    {"model.heads", "2"},
                                    {"train.global_batch", std::to_string(2 * one.pipeline)}}));
    std::vector<int64_t> holders(static_cast<size_t>(one.layers));
    const auto report = nlohmann::json::parse(engine->report("ranks"));
    for (const auto& rank : report["ranks"]) {
      CHECK(rank["chunks"].size() == static_cast<size_t>(one.chunks));
      for (const auto& chunk : rank["chunks"]) {
        for (int64_t i = 0; i < chunk["layers"].get<int64_t>(); ++i) {
          ++holders.at(chunk["first_layer"].get<size_t>() + static_cast<size_t>(i));
        }
      }
    }
    CHECK(holders == std::vector<int64_t>(holders.size(), 1));
    // Each layer's tensors are there under its own name.
    for (int64_t layer = 0; layer < one.layers; ++layer) {
      const Text name = "layers." + std::to_string(layer) + ".attention.query.weight";
      CHECK(norm(read(*engine, name, TensorKind::kParam)) > 0);
    }
  }
}

TEST_CASE("P8, trap 28: a rank without layers takes part in every collective",
          "[faults][pipeline]") {
  const std::vector<int32_t> rows = fault_rows(308);
  const auto train = [&](const Layout& layout, const Keys& keys) {
    RankWorld world(fault_config(layout, keys));
    WorldState state;
    for (int i = 0; i < 2; ++i) {
      const auto results = world.step(token_batch(rows, kFaultBatch));
      CHECK(world.disagreement(results) == "");
      CHECK(results[0].update.kind == Update::Kind::kApplied);
    }
    state = world.state();
    CHECK(state.fault == "");
    return state.masters;
  };
  for (const int64_t zero : {0, 1, 2, 3}) {
    const auto want = train(degrees(1, 1, 2, zero), {});
    const Layout layout = degrees(1, 3, 2, zero);
    INFO(layout.text());
    CHECK(train(layout, {{"layout.stage_layers", "[2,0,2]"}}) == want);
    // Embeddings alone, and the head alone.
    CHECK(train(layout, {{"layout.stage_layers", "[0,4,0]"}}) == want);
  }
}
