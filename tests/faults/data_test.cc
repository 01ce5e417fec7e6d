// What goes wrong on the data axis: norms, slices, accumulation, rows that few ranks see.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "tests/faults/fault_cases.h"
#include "tests/faults/rank_world.h"

using namespace plait;
using namespace plait::test;

namespace {

/// Sizes that no number of slices divides: h 48, V 65, 3 layers.
const Keys kOdd = {{"model.layers", "3"},
                   {"model.hidden", "48"},
                   {"model.feed_forward", "52"},
                   {"model.vocab_size", "65"}};
constexpr int64_t kOddVocabulary = 65;

Keys with(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

struct DataRun {
  std::vector<double> losses, norms;
  std::vector<float> weights, moments;
};

DataRun train(const Layout& layout, const Keys& keys, int64_t batch, int64_t steps) {
  TestEngine engine(
      fault_config(layout, with(keys, {{"train.global_batch", std::to_string(batch)}})));
  DataRun trained;
  for (int64_t i = 0; i < steps; ++i) {
    const std::vector<int32_t> rows =
        random_rows(batch, kFaultSequence + 1, kOddVocabulary, 200 + static_cast<uint64_t>(i));
    const Metrics metrics = step(*engine, token_batch(rows, batch));
    trained.losses.push_back(metrics.loss);
    trained.norms.push_back(metrics.grad_norm);
  }
  trained.weights = read_all(*engine, TensorKind::kParam);
  trained.moments = read_all(*engine, TensorKind::kMoment1);
  return trained;
}

bool same_bits(const DataRun& a, const DataRun& b) {
  return a.losses == b.losses && a.norms == b.norms && a.weights == b.weights &&
         a.moments == b.moments;
}

void check_near(const DataRun& got, const DataRun& want) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    CHECK(got.losses[i] == Approx(want.losses[i]).epsilon(1e-5));
    CHECK(got.norms[i] == Approx(want.norms[i]).epsilon(1e-5));
  }
  CHECK(relative_difference(got.weights, want.weights) < 1e-5);
}

Layout with_micro_batch(Layout layout, int64_t rows) {
  layout.micro_batch = rows;
  return layout;
}

}  // namespace

TEST_CASE("D2, trap 31: both copies of a tied embedding stay equal, bit for bit",
          "[faults][data]") {
  for (const int64_t zero : {0, 1, 2, 3}) {
    for (const bool is_overlapping : {true, false}) {
      for (const int64_t pipeline : {1, 2}) {
        Layout layout = degrees(1, pipeline, 2, zero);
        layout.is_overlapping = is_overlapping;
        INFO(layout.text());
        RankWorld world(fault_config(layout, {{"model.tied", "true"}}));
        for (uint64_t i = 0; i < kDriftSteps; ++i) {
          const auto results = world.step(token_batch(fault_rows(210 + i), kFaultBatch));
          REQUIRE(world.disagreement(results) == "");
          REQUIRE(world.state().fault == "");
        }
      }
    }
  }
}

TEST_CASE("D3, traps 5, 7: four data ranks report the one norm of the whole batch",
          "[faults][data]") {
  const auto norm_of = [](const Layout& layout) {
    RankWorld world(fault_config(layout));
    const auto results = world.step(token_batch(fault_rows(220), kFaultBatch));
    CHECK(world.disagreement(results) == "");
    return results[0].update.grad_norm;
  };
  const double want = norm_of(degrees(1, 1, 1));
  for (const int64_t zero : {0, 1, 2, 3}) {
    CHECK(norm_of(degrees(1, 1, 4, zero)) == Approx(want).epsilon(1e-5));
    CHECK(norm_of(degrees(2, 1, 4, zero)) == Approx(want).epsilon(1e-5));
  }
}

TEST_CASE("D4, D6, D9, traps 3, 4, 32, 34: ZeRO stages and accumulation change rounding alone",
          "[faults][data]") {
  constexpr int64_t kBatch = 24, kSteps = kCaseStep == 1 ? 5 : 2;
  const DataRun want = train(degrees(1, 1, 1), kOdd, kBatch, kSteps);
  for (const int64_t data : {3, 2, 4}) {
    if (data != 3 && kCaseStep > 1) continue;
    // One micro-batch and several.
    for (const int64_t micro : {kBatch / data, int64_t{2}}) {
      std::vector<DataRun> stages;
      for (const int64_t zero : {0, 1, 2, 3}) {
        const Layout layout = with_micro_batch(degrees(1, 1, data, zero), micro);
        INFO(layout.text());
        stages.push_back(train(layout, kOdd, kBatch, kSteps));
        check_near(stages.back(), want);
      }
      CHECK(same_bits(stages[0], stages[1]));
      CHECK(same_bits(stages[2], stages[3]));
      if (micro == kBatch / data) CHECK(same_bits(stages[0], stages[2]));
    }
  }
}

TEST_CASE("D5, trap 33: an id of one row alone has the gradient of one rank", "[faults][data]") {
  constexpr int32_t kRare = kFaultVocabulary - 1;
  std::vector<int32_t> rows = random_rows(kFaultBatch, kFaultSequence + 1, 50, 230);
  rows[6 * (kFaultSequence + 1) + 3] = kRare;  // in the last data rank's last micro-batches
  const auto gradients = [&](const Layout& layout) {
    TestEngine engine(fault_config(layout, {{"model.tied", "false"}}));
    forward_backward(*engine, token_batch(rows, kFaultBatch));
    return read(*engine, "embedding.token.weight", TensorKind::kGradient);
  };
  const std::vector<float> want = gradients(degrees(1, 1, 1));
  const auto row_of = [](const std::vector<float>& table, int32_t id) {
    return std::vector<float>(table.begin() + id * 16, table.begin() + (id + 1) * 16);
  };
  REQUIRE(norm(row_of(want, kRare)) > 0);
  REQUIRE(norm(row_of(want, 120)) == 0);
  for (const Layout& layout : fault_layouts()) {
    INFO(layout.text());
    const std::vector<float> got = gradients(layout);
    CHECK(relative_difference(got, want) < 1e-5);
    CHECK(relative_difference(row_of(got, kRare), row_of(want, kRare)) < 1e-5);
    CHECK(norm(row_of(got, 120)) == 0);
  }
}

TEST_CASE("D5: frozen layers, which the build has not, are refused by name", "[faults][data]") {
  Config config = tiny_config();
  CHECK_THROWS_AS(config.set("model.frozen_layers", "1"), Error);
}

TEST_CASE("D7, trap 34: a step sends as much over the data axis, however it is accumulated",
          "[faults][data]") {
  for (const int64_t zero : {0, 1}) {
    std::vector<double> sent;
    for (const int64_t micro : {4, 2, 1}) {
      const Layout layout = with_micro_batch(degrees(1, 2, 2, zero), micro);
      TestEngine engine(fault_config(layout));
      const std::vector<int32_t> rows = fault_rows(240);
      step(*engine, token_batch(rows, kFaultBatch));
      const auto bytes = [&] {
        double sum = 0;
        for (const char* kind : {"all_reduce", "reduce_scatter", "all_gather", "send_receive"}) {
          sum += engine->counter(std::string("data_") + kind + "_bytes");
        }
        return sum;
      };
      const double before = bytes();
      step(*engine, token_batch(rows, kFaultBatch));
      sent.push_back(bytes() - before);
    }
    INFO("stage " << zero);
    CHECK(sent[0] > 0);
    CHECK(sent[1] == sent[0]);
    CHECK(sent[2] == sent[0]);
  }
}

TEST_CASE("D8, trap 3: gradients do not depend on what their memory held", "[faults][data]") {
  for (const Layout& layout : {degrees(1, 1, 1), degrees(2, 2, 1), degrees(1, 1, 2, 1),
                               degrees(1, 2, 2, 2), with_sequence_parallel(degrees(2, 1, 2, 3))}) {
    for (const char* compute : {"bf16", "fp32"}) {
      INFO(layout.text() << " " << compute);
      const Config config =
          fault_config(layout, {{"model.tied", "true"}, {"precision.compute", compute}});
      RankWorld plain(config), dirty(config);
      dirty.on_overwrite([](const GradientEvent& event) {
        for (const auto& parameter : event.unit.parameters()) {
          const TensorView gradient = event.gradient(*parameter);
          std::fill_n(gradient.as<float>(), gradient.elements(),
                      std::numeric_limits<float>::quiet_NaN());
        }
      });
      for (uint64_t i = 0; i < 3; ++i) {
        const std::vector<int32_t> rows = fault_rows(250 + i);
        const auto want = plain.step(token_batch(rows, kFaultBatch));
        const auto got = dirty.step(token_batch(rows, kFaultBatch));
        REQUIRE(got[0].update.kind == Update::Kind::kApplied);
        CHECK(got[0].update.grad_norm == want[0].update.grad_norm);
      }
      CHECK(dirty.bits() == plain.bits());
    }
  }
}

TEST_CASE("B1, trap 37: the sum over data ranks is made in fp32", "[faults][data]") {
  // Equal rows on four ranks: the mean is that of one rank, with no bit of bf16 lost on the way.
  const std::vector<int32_t> one = fault_rows(260, 1);
  std::vector<int32_t> four;
  for (int i = 0; i < 4; ++i) four.insert(four.end(), one.begin(), one.end());
  const auto gradients = [](const Layout& layout, const std::vector<int32_t>& rows, int64_t count) {
    TestEngine engine(fault_config(
        layout, {{"precision.compute", "bf16"}, {"train.global_batch", std::to_string(count)}}));
    forward_backward(*engine, token_batch(rows, count));
    return read_all(*engine, TensorKind::kGradient);
  };
  const std::vector<float> want = gradients(degrees(1, 1, 1), one, 1);
  for (const int64_t zero : {0, 1, 2, 3}) {
    CHECK(relative_difference(gradients(degrees(1, 1, 4, zero), four, 4), want) < 1e-6);
  }
}

TEST_CASE("trap 35: weights are read whole as soon as a step has ended", "[faults][data]") {
  for (const int64_t zero : {0, 1, 2, 3}) {
    TestEngine engine(fault_config(degrees(2, 1, 2, zero))), alone(fault_config(degrees(2, 1, 1)));
    for (uint64_t i = 0; i < 3; ++i) {
      const std::vector<int32_t> rows = fault_rows(270 + i);
      step(*engine, token_batch(rows, kFaultBatch));
      step(*alone, token_batch(rows, kFaultBatch));
      INFO("stage " << zero);
      CHECK(relative_difference(read_all(*engine, TensorKind::kParam),
                                read_all(*alone, TensorKind::kParam)) < 1e-5);
      CHECK(evaluate(*engine, token_batch(rows, kFaultBatch)).loss ==
            Approx(evaluate(*alone, token_batch(rows, kFaultBatch)).loss).epsilon(1e-5));
    }
  }
}

TEST_CASE("V1: threads that are counted by themselves are no more than cores, or ranks",
          "[faults][data]") {
  for (const int64_t data : {1, 2, 4}) {
    TestEngine engine(fault_config(degrees(1, 1, data), {{"threads", "auto"}}));
    const std::string report = engine->report("kernels");
    const int64_t want = std::max<int64_t>(data, usable_cores());
    INFO(report);
    CHECK(report.find("\"threads\":" + std::to_string(want) + ",") != std::string::npos);
  }
}
