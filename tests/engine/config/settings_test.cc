#include "engine/config/settings.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/config/config_samples.h"

using namespace plait;

TEST_CASE("settings of a small configuration", "[settings]") {
  const Settings settings = make_settings(small_config());
  CHECK(settings.model.family == FamilyChoice::kGpt2);
  CHECK(settings.model.layers == 4);
  CHECK(settings.model.key_value_heads == 6);
  CHECK(settings.model.head_size == 8);
  CHECK(settings.model.feed_forward == 192);
  CHECK(settings.model.tied);
  CHECK(settings.model.norm_epsilon == 1e-5);
  CHECK(settings.layout.auto_keys.empty());
  CHECK(settings.layout.scatter_gather);
  CHECK(settings.precision.compute == DType::kFloat32);
  CHECK_FALSE(settings.precision.constant_loss_scale);
  CHECK(settings.precision.loss_scale_max == 16777216);
  CHECK(settings.optimizer.lr == 3e-4);
  CHECK(settings.optimizer.clip_grad_norm == 1);
  CHECK(settings.train.sequence_length == 32);
  CHECK(settings.train.replica_check_every == 100);
  CHECK(settings.data.train.empty());
  CHECK(settings.data.split == std::vector<double>{1});
  CHECK(settings.timeout.frozen_ms == 5000);
  CHECK(settings.timeout.stall_fail == 10);
  CHECK(settings.checkpoint.max_staged == 2);
  CHECK_FALSE(settings.checkpoint.write_minor);
  CHECK(settings.device.device == "cpu");
  CHECK(settings.device.threads == 0);
  CHECK(settings.generate.stop_token == -1);
  CHECK(settings.export_hf.max_shard_bytes == 5'000'000'000);
  CHECK(settings.seed == 1234);
}

TEST_CASE("a required key that is missing is named", "[settings]") {
  for (const char* key : {"model.family", "model.layers", "model.hidden", "model.heads",
                          "model.vocab_size", "model.sequence_length", "train.global_batch"}) {
    INFO(key);
    Config config = small_config();
    config.set(key, nullptr);
    const Caught error = caught([&] { make_settings(config); });
    CHECK(error.word == "argument");
    CHECK(error.fields["key"] == key);
  }
  Config config = small_config();
  config.set("model.hidden", "50");
  const Caught error = caught([&] { make_settings(config); });
  CHECK(error.fields["model.hidden"] == 50);
  CHECK(error.fields["model.heads"] == 6);
}

TEST_CASE("words become the enumerators of the same name", "[settings]") {
  Config config = small_config();
  config.load_json(R"({"model.family": "llama", "layout.schedule": "zero_bubble",
    "layout.recompute": "full", "precision.compute": "bf16", "optimizer.lr_schedule": "wsd",
    "optimizer.lr_tail_shape": "sqrt", "train.on_nonfinite": "skip", "data.token_type": "int32",
    "train.on_divergence": "metric", "checkpoint.verify": "full", "checkpoint.on_busy": "error",
    "checkpoint.on_existing": "replace", "checkpoint.commit": "manifest_last",
    "checkpoint.numerics": "strict", "checkpoint.write_minor": 3, "network.transport": "mpi",
    "tokenize.format": "indexed", "tokenize.documents": "line", "export.dtype": "float16",
    "precision.loss_scale": 256, "threads": 4, "precision.matmul": "tf32"})");
  const Settings settings = make_settings(config);
  CHECK(settings.model.family == FamilyChoice::kLlama);
  CHECK_FALSE(settings.model.tied);
  CHECK(settings.layout.schedule == ScheduleChoice::kZeroBubble);
  CHECK(settings.layout.recompute == RecomputeChoice::kFull);
  CHECK(settings.precision.compute == DType::kBFloat16);
  CHECK(settings.precision.residual == DType::kBFloat16);
  CHECK(settings.precision.matmul == MatmulChoice::kTf32);
  CHECK(settings.precision.constant_loss_scale == 256);
  CHECK(settings.optimizer.lr_schedule == LrScheduleChoice::kWsd);
  CHECK(settings.optimizer.lr_tail_shape == LrTailChoice::kSqrt);
  CHECK(settings.train.on_nonfinite == NonfiniteChoice::kSkip);
  CHECK(settings.train.on_divergence == DivergenceChoice::kMetric);
  CHECK(settings.data.token_type == TokenTypeChoice::kInt32);
  CHECK(settings.checkpoint.verify == VerifyChoice::kFull);
  CHECK(settings.checkpoint.on_busy == BusyChoice::kError);
  CHECK(settings.checkpoint.on_existing == ExistingChoice::kReplace);
  CHECK(settings.checkpoint.commit == CommitChoice::kManifestLast);
  CHECK(settings.checkpoint.numerics == NumericsChoice::kStrict);
  CHECK(settings.checkpoint.write_minor == 3);
  CHECK(settings.network.transport == TransportChoice::kMpi);
  CHECK(settings.tokenize.format == TokenFormatChoice::kIndexed);
  CHECK(settings.tokenize.documents == DocumentsChoice::kLine);
  CHECK(settings.export_hf.dtype == DType::kFloat16);
  CHECK(settings.device.threads == 4);
  config.set("precision.residual", "fp32");
  CHECK(make_precision(config).residual == DType::kFloat32);
  config.set("precision.compute", "fp16");
  CHECK(make_precision(config).compute == DType::kFloat16);
}

TEST_CASE("keys left to the planner are listed", "[settings]") {
  Config config = small_config();
  config.set("layout.interleave", "auto");
  config.set("layout.stage_layers", "auto");
  config.set("layout.data", "2");
  const LayoutConfig layout = make_layout(config);
  CHECK(layout.auto_keys ==
        std::vector<std::string>{"layout.interleave", "layout.schedule", "layout.stage_layers"});
  CHECK(layout.data == 2);
  CHECK(layout.interleave == 1);
}

TEST_CASE("blend weights default to one for each path", "[settings]") {
  Config config = small_config();
  config.set("data.train", R"(["a","b"])");
  CHECK(make_data(config).train_weights == std::vector<double>{1, 1});
  config.set("data.train_weights", "[3,1]");
  CHECK(make_data(config).train_weights == std::vector<double>{3, 1});
}

TEST_CASE("the batch ramps up by samples consumed", "[settings]") {
  Config config = small_config();
  CHECK(make_train(config).batch_at(1000) == 16);
  config.set("train.batch_ramp", "[4,5,100]");
  const TrainConfig train = make_train(config);
  const std::vector<std::pair<int64_t, int64_t>> expected = {
      {0, 4}, {99, 4}, {100, 9}, {199, 9}, {200, 14}, {299, 14}, {300, 16}, {1'000'000, 16}};
  for (const auto& [samples, batch] : expected) CHECK(train.batch_at(samples) == batch);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(train.batch_at(kMost) == 16);
  config.set("train.batch_ramp", "[4,9223372036854775807,1]");
  CHECK(make_train(config).batch_at(kMost) == 16);
  config.set("train.batch_ramp", "[4,5]");
  const Caught error = caught([&] { make_train(config); });
  CHECK(error.fields["key"] == "train.batch_ramp");
  CHECK(error.fields["count"] == 2);
}
