#include "engine/config/checks.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/engine/config/config_samples.h"

using namespace plait;
using nlohmann::json;

namespace {

/// What check says about the small configuration with `changes` merged in.
Caught check_with(const std::string& changes) {
  Config config = small_config();
  config.load_json(changes);
  return caught([&] { check(config); });
}

json fields_with(const std::string& changes) {
  const Caught error = check_with(changes);
  CHECK(error.word == "argument");
  return error.fields;
}

bool passes(const std::string& changes) {
  const Caught error = check_with(changes);
  INFO(error.message);
  CHECK(error.word.empty());
  return error.word.empty();
}

}  // namespace

TEST_CASE("the small configuration passes", "[checks]") { CHECK(passes("{}")); }

TEST_CASE("rules of the model", "[checks]") {
  CHECK(fields_with(R"({"model.key_value_heads": 4})") ==
        json{{"model.heads", 6}, {"model.key_value_heads", 4}});
  CHECK(fields_with(R"({"model.key_value_heads": 12})")["model.key_value_heads"] == 12);
  CHECK(fields_with(R"({"model.hidden": 50})")["model.heads"] == 6);
  CHECK(passes(R"({"model.hidden": 50, "model.head_size": 8})"));
  CHECK(fields_with(R"({"model.family": "llama", "model.head_size": 7})") ==
        json{{"model.family", "llama"}, {"model.head_size", 7}});
  CHECK(passes(R"({"model.head_size": 7})"));
  CHECK(passes(R"({"model.family": "llama", "model.key_value_heads": 2})"));
  CHECK(fields_with(R"({"model.layers": 65536, "model.hidden": 16777214, "model.heads": 2,
    "model.head_size": 65536, "model.feed_forward": 268435456})")["model.layers"] == 65536);
}

TEST_CASE("weights are counted as published", "[checks]") {
  ModelConfig gpt2{.layers = 12,
                   .hidden = 768,
                   .heads = 12,
                   .key_value_heads = 12,
                   .head_size = 64,
                   .feed_forward = 3072,
                   .vocab_size = 50257,
                   .sequence_length = 1024,
                   .tied = true};
  CHECK(count_parameters(gpt2) == 124'439'808);
  gpt2.tied = false;
  CHECK(count_parameters(gpt2) == 163'037'184);
  const ModelConfig llama_8b{.family = FamilyChoice::kLlama,
                             .layers = 32,
                             .hidden = 4096,
                             .heads = 32,
                             .key_value_heads = 8,
                             .head_size = 128,
                             .feed_forward = 14336,
                             .vocab_size = 128256,
                             .sequence_length = 8192};
  CHECK(count_parameters(llama_8b) == 8'030'261'248);
}

TEST_CASE("rules of precision", "[checks]") {
  for (const std::string word : {"bf16x3", "tf32"}) {
    const Caught error = check_with("{\"precision.matmul\": \"" + word + "\"}");
    CHECK(error.word == "not_built");
    CHECK(error.fields["key"] == "precision.matmul");
    CHECK(error.fields["value"] == word);
  }
  CHECK(fields_with(R"({"precision.loss_scale_min": 70000})") ==
        json{{"precision.loss_scale_min", 70000}, {"precision.loss_scale_start", 65536}});
  CHECK(fields_with(R"({"precision.loss_scale_max": 2})") ==
        json{{"precision.loss_scale_start", 65536}, {"precision.loss_scale_max", 2}});
}

TEST_CASE("rules of the learning rate", "[checks]") {
  CHECK(passes(R"({"optimizer.lr_warmup_steps": 10})"));
  CHECK(fields_with(R"({"optimizer.lr_schedule": "cosine"})") ==
        json{{"optimizer.lr_schedule", "cosine"},
             {"optimizer.lr_decay_steps", 0},
             {"optimizer.lr_warmup_steps", 0}});
  CHECK(fields_with(R"({"optimizer": {"lr_schedule": "linear", "lr_warmup_steps": 10,
    "lr_decay_steps": 10}})")["optimizer.lr_decay_steps"] == 10);
  CHECK(passes(R"({"optimizer": {"lr_schedule": "linear", "lr_warmup_steps": 10,
    "lr_decay_steps": 11}})"));
  const std::string wsd =
      R"({"optimizer": {"lr_schedule": "wsd", "lr_warmup_steps": 10, "lr_decay_steps": 50,)"
      R"( "lr_tail_steps": )";
  CHECK(fields_with(wsd + "0}}")["optimizer.lr_tail_steps"] == 0);
  CHECK(fields_with(wsd + "41}}")["maximum"] == 40);
  CHECK(passes(wsd + "40}}"));
  CHECK(fields_with(R"({"optimizer": {"lr_schedule": "linear", "lr_decay_steps": 9,
    "min_lr": 0.1}})") == json{{"optimizer.min_lr", 0.1}, {"optimizer.lr", 0.0003}});
}

TEST_CASE("rules of the training step", "[checks]") {
  CHECK(fields_with(R"({"train.sequence_length": 33})") ==
        json{{"train.sequence_length", 33}, {"model.sequence_length", 32}});
  CHECK(fields_with(R"({"train.batch_ramp": [20, 4, 10]})")["first"] == 20);
  CHECK(fields_with(R"({"train.batch_ramp": [4]})")["count"] == 1);
  CHECK(passes(R"({"train.batch_ramp": [4, 4, 10]})"));
}

TEST_CASE("rules of the data", "[checks]") {
  json fields = fields_with(R"({"data.train": ["a", "b"], "data.train_weights": [1]})");
  CHECK(fields["weights"] == 1);
  CHECK(fields["paths"] == 2);
  CHECK(fields["data.train"] == R"(["a","b"])");
  CHECK(fields_with(R"({"data.evaluate_weights": [1]})")["paths"] == 0);
  CHECK(fields_with(R"({"data.split": []})")["count"] == 0);
  CHECK(fields_with(R"({"data.split": [0.9, 0.2]})")["data.split"] == "[0.9,0.2]");
  CHECK(fields_with(R"({"data.split": [0.5, 0.2, 0.1]})")["sum"].get<double>() == Approx(0.8));
  CHECK(fields_with(R"({"data.split": [0.25, 0.25, 0.25, 0.25]})")["count"] == 4);
  CHECK(passes(R"({"data.split": [0.9, 0.05]})"));
  CHECK(passes(R"({"data.split": [0.7, 0.2, 0.1]})"));
  CHECK(fields_with(R"({"data.token_type": "uint16", "model.vocab_size": 65537})") ==
        json{{"data.token_type", "uint16"}, {"model.vocab_size", 65537}, {"maximum", 65536}});
  CHECK(passes(R"({"data.token_type": "uint16", "model.vocab_size": 65536})"));
}

TEST_CASE("data rules need no model", "[checks]") {
  Config config;
  config.set("data.token_type", "uint16");
  CHECK(caught([&] { check_data(config); }).word.empty());
  CHECK(caught([&] { check_system(config); }).word.empty());
}

TEST_CASE("rules of deadlines, generation and resumes", "[checks]") {
  CHECK(fields_with(R"({"timeout.heartbeat_ms": 5000})") ==
        json{{"timeout.frozen_ms", 5000}, {"timeout.heartbeat_ms", 5000}});
  CHECK(fields_with(R"({"timeout.stall_warn": 11})") ==
        json{{"timeout.stall_warn", 11}, {"timeout.stall_fail", 10}});
  CHECK(fields_with(R"({"generate.stop_token": 131})") ==
        json{{"generate.stop_token", 131}, {"model.vocab_size", 131}});
  CHECK(passes(R"({"checkpoint.allow_change": ["optimizer.lr", "data", "precision"]})"));
  CHECK(fields_with(R"({"checkpoint.allow_change": ["optimizer.lrr"]})")["nearest"] ==
        "optimizer.lr");
  CHECK(fields_with(R"({"checkpoint.allow_change": ["model.layers"]})") ==
        json{{"checkpoint.allow_change", "model.layers"}, {"resume", "same"}});
  CHECK(fields_with(R"({"checkpoint.allow_change": ["model"]})")["resume"] == "same");
}
