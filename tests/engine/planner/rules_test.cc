// Rules of layouts: their numbers by hand, and their agreement with the rules of configurations.
#include "engine/planner/rules.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/config/checks.h"
#include "kernels/base/error.h"

using namespace plait;

namespace {

/// What rules read of a job: no hardware.
Job job_of(const Config& config, int64_t world) {
  Job job;
  job.model = make_model(config);
  job.precision = make_precision(config);
  job.train = make_train(config);
  job.world = world;
  return job;
}

Config model_config(const char* json) {
  Config config;
  config.load_json(json);
  return config;
}

constexpr const char* kSmall =
    R"({"model.family": "gpt2", "model.layers": 6, "model.hidden": 384, "model.heads": 6,
        "model.vocab_size": 65, "model.sequence_length": 256, "train.global_batch": 64})";

std::string words_of(const std::vector<Violation>& violations) {
  std::string words;
  for (const Violation& violation : violations) {
    if (!words.empty()) words += ' ';
    words += violation.word;
  }
  return words;
}

bool is_accepted(const Config& config) {
  try {
    check_layout(config);
    return true;
  } catch (const Error& error) {
    REQUIRE(error.word() == "argument");
    return false;
  }
}

/// One of the values, by turns of `random`.
class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  const char* operator()(const std::vector<const char*>& values) {
    return values[random_() % values.size()];
  }

 private:
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("layouts keep the planner's rules where they keep those of configurations") {
  Draw draw(11);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    Config config = model_config(kSmall);
    config.set("model.heads", draw({"4", "6", "8", "12"}));
    config.set("model.head_size", "32");
    config.set("model.key_value_heads", draw({"1", "2", "4"}));
    config.set("model.layers", draw({"4", "6", "8"}));
    config.set("model.feed_forward", draw({"1536", "1020"}));
    config.set("train.global_batch", draw({"32", "48", "64"}));
    config.set("train.batch_ramp", draw({nullptr, nullptr, "[8,8,100]", "[24,6,100]"}));
    config.set("train.sequence_length", draw({"250", "256"}));
    config.set("layout.tensor", draw({"1", "1", "2", "3", "4"}));
    config.set("layout.pipeline", draw({"1", "2", "3", "4"}));
    config.set("layout.data", draw({"1", "2", "3", "4"}));
    config.set("layout.micro_batch", draw({"1", "2", "3"}));
    config.set("layout.interleave", draw({"1", "1", "2", "3"}));
    config.set("layout.schedule", draw({nullptr, nullptr, "one_forward_one_backward", "interleaved",
                                        "gpipe", "zero_bubble"}));
    config.set("layout.zero", draw({"0", "1", "2", "3"}));
    config.set("layout.sequence_parallel", draw({"false", "true"}));
    config.set("layout.stage_layers", draw({nullptr, nullptr, nullptr, "[2,4]", "[1,2,1]"}));
    if (i % 3 == 0) {
      config.set("precision.reduction", "canonical");
      config.set("precision.canonical_tensor", draw({"1", "2"}));
      config.set("precision.canonical_data", draw({"2", "4"}));
      config.set("model.heads", draw({"4", "8"}));
      config.set("model.key_value_heads", draw({"2", "4"}));
    }
    const LayoutConfig layout = make_layout(config);
    const Job job = job_of(config, layout.tensor * layout.pipeline * layout.data);
    const bool is_legal = is_accepted(config);
    (is_legal ? accepted : refused) += 1;
    INFO(config.dump_json(false));
    INFO(words_of(violated_rules(job, layout)));
    REQUIRE(violated_rules(job, layout).empty() == is_legal);
  }
  CHECK(accepted > 100);
  CHECK(refused > 1000);
}

TEST_CASE("every broken rule is told with both numbers") {
  struct Row {
    const char* keys;
    int64_t world;
    const char* words;
    int64_t first, second;  // of the first
  };
  const Row row = GENERATE(
      Row{R"({"layout.tensor": 4, "layout.micro_batch": 3})", 4, "heads batch", 6, 4},
      Row{R"({"layout.data": 2})", 6, "devices", 2, 6},
      Row{R"({"layout.tensor": 2, "model.feed_forward": 1025})", 2, "feed_forward", 1025, 2},
      Row{R"({"layout.tensor": 3, "model.key_value_heads": 2})", 3, "kv_heads", 2, 3},
      Row{R"({"layout.pipeline": 8})", 8, "layers", 6, 8},
      Row{R"({"layout.pipeline": 2, "layout.stage_layers": [2, 3]})", 2, "layers", 5, 6},
      Row{R"({"layout.pipeline": 2, "layout.stage_layers": [6]})", 2, "layers", 1, 2},
      Row{R"({"layout.data": 3})", 3, "batch", 64, 3},
      Row{R"({"layout.interleave": 2})", 1, "interleave", 2, 1},
      Row{R"({"layout.pipeline": 3, "layout.interleave": 2})", 3, "interleave", 64, 3},
      Row{R"({"layout.tensor": 2, "layout.sequence_parallel": true,
              "train.sequence_length": 255})",
          2, "sequence", 255, 2},
      Row{R"({"layout.schedule": "interleaved"})", 1, "schedule", 1, 2},
      Row{R"({"layout.pipeline": 2, "layout.interleave": 3, "layout.schedule": "gpipe"})", 2,
          "schedule", 3, 1},
      Row{R"({"layout.pipeline": 2, "layout.schedule": "zero_bubble", "layout.zero": 2})", 2,
          "schedule", 2, 1},
      Row{R"({"layout.pipeline": 2, "train.global_batch": 16777216})", 2, "schedule", 33554432,
          16777216},
      Row{R"({"layout.data": 4, "precision.reduction": "canonical",
              "precision.canonical_tensor": 1, "precision.canonical_data": 2})",
          4, "canonical", 2, 4},
      Row{R"({"layout.tensor": 3, "layout.pipeline": 7, "layout.data": 5, "layout.micro_batch": 3,
              "layout.schedule": "interleaved"})",
          8, "devices layers batch schedule", 105, 8});
  Config config = model_config(kSmall);
  config.load_json(row.keys);
  const std::vector<Violation> violations =
      violated_rules(job_of(config, row.world), make_layout(config));
  INFO(row.keys);
  REQUIRE(words_of(violations) == row.words);
  CHECK(violations[0].first == row.first);
  CHECK(violations[0].second == row.second);
  for (const Violation& violation : violations) {
    INFO(violation.sentence);
    CHECK(violation.sentence.find(std::to_string(violation.first)) != std::string::npos);
    CHECK(violation.sentence.find(std::to_string(violation.second)) != std::string::npos);
  }
}

TEST_CASE("a degree splits a model evenly or not") {
  Config config = model_config(kSmall);
  config.set("model.feed_forward", "1020");
  std::vector<int64_t> even;
  for (int64_t t = 1; t <= 8; ++t) {
    if (splits_evenly(job_of(config, t), t)) even.push_back(t);
  }
  CHECK(even == std::vector<int64_t>{1, 2, 3, 6});
  config.set("precision.reduction", "canonical");
  config.set("precision.canonical_tensor", "2");
  config.set("precision.canonical_data", "2");
  CHECK(splits_evenly(job_of(config, 2), 2));
  CHECK_FALSE(splits_evenly(job_of(config, 3), 3));
}

TEST_CASE("the fullest rank decides whether a layout fits") {
  Job job;
  job.hardware.memory_bytes = int64_t{10} << 30;
  job.hardware.reserve_bytes = int64_t{1} << 30;
  Estimate estimate;
  estimate.memory.resize(2);
  estimate.memory[0].weights = int64_t{2} << 30;
  estimate.memory[1].weights = int64_t{4} << 30;
  estimate.memory[1].optimizer = int64_t{5} << 30;
  estimate.fullest = 1;
  CHECK(fits(job, estimate, nullptr));
  estimate.memory[1].communication = int64_t{1} << 29;
  std::vector<Violation> violations;
  CHECK_FALSE(fits(job, estimate, nullptr));
  REQUIRE_FALSE(fits(job, estimate, &violations));
  REQUIRE(words_of(violations) == "memory");
  CHECK(violations[0].first == (int64_t{19} << 29));
  CHECK(violations[0].second == (int64_t{9} << 30));
  CHECK(violations[0].sentence ==
        "a rank at pipeline coordinate 1 needs 9.5 GiB, above all for optimizer, and a device has "
        "9.0 GiB");
}
