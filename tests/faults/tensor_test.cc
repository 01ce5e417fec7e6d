// What goes wrong on the tensor axis: partial gradients, norms, masks, replicas that drift.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "tests/engine/data/data_support.h"
#include "tests/faults/fault_cases.h"
#include "tests/faults/rank_world.h"

using namespace plait;
using namespace plait::test;

namespace {

const Keys kLlama = {
    {"model.family", "llama"}, {"model.key_value_heads", "2"}, {"model.feed_forward", "28"}};

std::vector<float> flat(const std::vector<std::vector<float>>& tensors) {
  std::vector<float> all;
  for (const std::vector<float>& tensor : tensors) {
    all.insert(all.end(), tensor.begin(), tensor.end());
  }
  return all;
}

struct TensorRun {
  std::vector<double> losses, norms;
  WorldState state;
};

/// Some steps; fails the test where ranks disagree or copies differ after any of them.
TensorRun train(const Layout& layout, const Keys& keys, int64_t steps) {
  RankWorld world(fault_config(layout, keys));
  TensorRun trained;
  for (int64_t i = 0; i < steps; ++i) {
    const auto results =
        world.step(token_batch(fault_rows(100 + static_cast<uint64_t>(i)), kFaultBatch));
    INFO(layout.text() << " step " << i + 1);
    REQUIRE(world.disagreement(results) == "");
    trained.state = world.state();
    REQUIRE(trained.state.fault == "");
    trained.losses.push_back(results[0].update.sums.loss);
    trained.norms.push_back(results[0].update.grad_norm);
  }
  return trained;
}

void check_near(const TensorRun& got, const TensorRun& want) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    CHECK(got.losses[i] == Approx(want.losses[i]).epsilon(1e-5));
    CHECK(got.norms[i] == Approx(want.norms[i]).epsilon(1e-4));
  }
  CHECK(relative_difference(flat(got.state.masters), flat(want.state.masters)) < 1e-5);
}

/// Losses of steps on rows of the project's own text, a byte each.
std::vector<double> losses_of_text(const Layout& layout, int64_t steps) {
  static const std::string text =
      read_text(PLAIT_SOURCE_DIR "/ARCHITECTURE.md") + read_text(PLAIT_SOURCE_DIR "/README.md");
  constexpr int64_t kRows = 4, kColumns = 25;
  Keys keys = {{"model.vocab_size", "256"},
               {"model.layers", "2"},
               {"model.hidden", "32"},
               {"model.sequence_length", std::to_string(kColumns - 1)},
               {"train.global_batch", std::to_string(kRows)},
               // Gradients near zero are not blown up to whole updates, which rounding would turn.
               {"optimizer.epsilon", "1e-6"},
               {"threads", "1"}};
  const Keys of_layout = layout.keys();
  keys.insert(keys.end(), of_layout.begin(), of_layout.end());
  TestEngine engine(tiny_config(keys));
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<int32_t> rows;
    for (int64_t at = 0; at < kRows * kColumns; ++at) {
      const auto place = static_cast<size_t>(i * kRows * kColumns + at) % text.size();
      rows.push_back(static_cast<unsigned char>(text[place]));
    }
    losses.push_back(step(*engine, token_batch(rows, kRows)).loss);
  }
  return losses;
}

}  // namespace

TEST_CASE("T2: label smoothing, which the build has not, is refused by name", "[faults][tensor]") {
  Config config = tiny_config();
  try {
    config.set("train.label_smoothing", "0.1");
    FAIL("the key was taken");
  } catch (const Error& error) {
    CHECK(error.word() == "argument");
    CHECK(error.message().find("train.label_smoothing") != std::string::npos);
  }
}

TEST_CASE("T3, traps 9, 10, 17: norms, row biases and shared heads stay equal on all tensor ranks",
          "[faults][tensor]") {
  constexpr int64_t kSteps = kDriftSteps;
  struct Family {
    const char* name;
    Keys keys;
  };
  for (const Family& family : {Family{"gpt2", {{"train.dropout", "0.1"}}},
                               {"llama", kLlama},
                               {"tied llama, one key/value head",
                                {{"model.family", "llama"},
                                 {"model.key_value_heads", "1"},
                                 {"model.feed_forward", "28"},
                                 {"model.tied", "true"}}}}) {
    INFO(family.name);
    const TensorRun want = train(degrees(1, 1, 1), family.keys, kSteps);
    for (const int64_t tensor : {2, 4}) {
      check_near(train(degrees(tensor, 1, 1), family.keys, kSteps), want);
      check_near(train(with_sequence_parallel(degrees(tensor, 1, 1)), family.keys, kSteps), want);
    }
    check_near(train(with_sequence_parallel(degrees(2, 2, 2, 1)), family.keys, kSteps), want);
  }
}

TEST_CASE("T4: 200 steps on characters follow one curve, sequence parallel or not",
          "[faults][tensor]") {
  constexpr int64_t kSteps = kCaseStep == 1 ? 200 : 40;
  const std::vector<double> want = losses_of_text(degrees(1, 1, 1), kSteps);
  CHECK(want.back() < want.front() - 1);  // it learns
  for (const Layout& layout : {degrees(2, 1, 1), with_sequence_parallel(degrees(2, 1, 1))}) {
    const std::vector<double> got = losses_of_text(layout, kSteps);
    double most = 0;
    for (size_t i = 0; i < want.size(); ++i) most = std::max(most, std::fabs(got[i] - want[i]));
    INFO(layout.text());
    CHECK(most < 1e-3);
  }
}

TEST_CASE("T6, trap 6: a norm of attention's vectors alone is the same on any tensor group",
          "[faults][tensor]") {
  // All other gradients are taken away, so that a vector left out, or counted twice, is the norm.
  const auto is_kept = [](const std::string& name) {
    return name.find("attention.query.bias") != std::string::npos ||
           name.find("attention.value.bias") != std::string::npos;
  };
  const auto norm_of = [&](const Layout& layout) {
    RankWorld world(fault_config(layout));
    world.on_gradient([&](const GradientEvent& event) {
      for (const auto& parameter : event.unit.parameters()) {
        float* values = event.gradient(*parameter).as<float>();
        for (const Segment& segment : parameter->segments) {
          const auto [first, count] = parameter->range(segment);
          if (!is_kept(segment.name)) std::fill_n(values + first, count, 0.0f);
        }
      }
    });
    const auto results = world.step(token_batch(fault_rows(71), kFaultBatch));
    CHECK(world.disagreement(results) == "");
    return results[0].update.grad_norm;
  };
  const double want = norm_of(degrees(1, 1, 1));
  CHECK(want > 0);
  for (const Layout& layout :
       {degrees(2, 1, 1), degrees(4, 1, 1), with_sequence_parallel(degrees(2, 1, 1)),
        with_sequence_parallel(degrees(4, 1, 1)), degrees(2, 2, 2, 0), degrees(2, 1, 2, 3)}) {
    INFO(layout.text());
    CHECK(norm_of(layout) == Approx(want).epsilon(1e-5));
  }
}

TEST_CASE("T10, traps 20, 21: masks are equal in a tensor group and differ between samples",
          "[faults][tensor]") {
  // Both data ranks get the same rows.
  std::vector<int32_t> rows = fault_rows(72, kFaultBatch / 2);
  const std::vector<int32_t> half = rows;
  rows.insert(rows.end(), half.begin(), half.end());
  const auto losses_of = [&](const Layout& layout, const char* dropout, int64_t steps) {
    RankWorld world(fault_config(layout, {{"train.dropout", dropout}, {"optimizer.lr", "0"}}));
    std::vector<double> losses;  // of the last step, by rank
    for (int64_t i = 0; i < steps; ++i) {
      losses.clear();
      for (const auto& result : world.step(token_batch(rows, kFaultBatch))) {
        losses.push_back(result.sum.loss);
      }
    }
    return losses;
  };
  for (const bool is_cut : {false, true}) {
    const Layout layout = is_cut ? with_sequence_parallel(degrees(2, 1, 2)) : degrees(2, 1, 2);
    INFO(layout.text());
    // Ranks 0 and 1 are the tensor group of the first data rank, 2 and 3 that of the second.
    const std::vector<double> first = losses_of(layout, "0.5", 1);
    CHECK(first[0] == first[1]);
    CHECK(first[2] == first[3]);
    CHECK(first[0] != first[2]);
    const std::vector<double> second = losses_of(layout, "0.5", 2);
    CHECK(second[0] == second[1]);
    CHECK(second[0] != first[0]);
    CHECK(second[2] != first[2]);
    const std::vector<double> without = losses_of(layout, "0", 1);
    CHECK(without[0] == without[2]);
    // Masks follow the sample, not who trains on it.
    CHECK(losses_of(degrees(1, 1, 2), "0.5", 1)[0] == Approx(first[0]).epsilon(1e-5));
    CHECK(losses_of(degrees(1, 1, 1), "0.5", 1)[0] == Approx(first[0] + first[2]).epsilon(1e-5));
  }
}

TEST_CASE(
    "P10, trap 11: sequence parallel over a pipeline trains as one rank does, to the bit again",
    "[faults][tensor]") {
  const Layout layout = with_sequence_parallel(degrees(2, 2, 1));
  const TensorRun first = train(layout, {}, 2), second = train(layout, {}, 2);
  CHECK(first.losses == second.losses);
  CHECK(first.state.masters == second.state.masters);
  check_near(first, train(degrees(1, 1, 1), {}, 2));
  Layout whole = layout;
  whole.is_scattering = false;
  CHECK(train(whole, {}, 2).state.masters == first.state.masters);
}
