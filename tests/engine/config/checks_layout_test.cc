#include <catch2/catch.hpp>
#include <string>

#include "engine/config/checks.h"
#include "tests/engine/config/config_samples.h"

using namespace plait;
using nlohmann::json;

namespace {

/// What check says about the small configuration with `layout` as its layout.
Caught check_layout_of(const std::string& layout, const std::string& rest = "{}") {
  Config config = small_config();
  config.load_json("{\"layout\": " + layout + "}");
  config.load_json(rest);
  return caught([&] { check(config); });
}

json fields_of(const std::string& layout, const std::string& rest = "{}") {
  const Caught error = check_layout_of(layout, rest);
  CHECK(error.word == "argument");
  return error.fields;
}

bool accepts(const std::string& layout, const std::string& rest = "{}") {
  const Caught error = check_layout_of(layout, rest);
  INFO(error.message);
  CHECK(error.word.empty());
  return error.word.empty();
}

}  // namespace

TEST_CASE("the tensor axis divides heads and feed-forward", "[checks]") {
  CHECK(fields_of(R"({"tensor": 4})") == json{{"model.heads", 6}, {"layout.tensor", 4}});
  CHECK(fields_of(R"({"tensor": 3})", R"({"model.feed_forward": 200})") ==
        json{{"model.feed_forward", 200}, {"layout.tensor", 3}});
  CHECK(accepts(R"({"tensor": 3})"));
}

TEST_CASE("key/value heads and the tensor axis divide one another", "[checks]") {
  const std::string model =
      R"({"model": {"heads": 12, "hidden": 96, "key_value_heads": 4, "feed_forward": 240}})";
  CHECK(fields_of(R"({"tensor": 6})", model) ==
        json{{"model.key_value_heads", 4}, {"layout.tensor", 6}});
  CHECK(accepts(R"({"tensor": 2})", model));
  CHECK(accepts(R"({"tensor": 12})", model));
}

TEST_CASE("sequence parallelism divides the tokens of a micro-batch", "[checks]") {
  const json fields = fields_of(R"({"tensor": 3, "sequence_parallel": true})");
  CHECK(fields["tokens"] == 32);
  CHECK(fields["layout.tensor"] == 3);
  CHECK(accepts(R"({"tensor": 3, "sequence_parallel": true})", R"({"train.sequence_length": 30})"));
  CHECK(accepts(R"({"tensor": 3, "sequence_parallel": "auto"})"));
}

TEST_CASE("layers fill the virtual stages", "[checks]") {
  CHECK(fields_of(R"({"pipeline": 8})") ==
        json{{"model.layers", 4}, {"layout.pipeline", 8}, {"layout.interleave", 1}, {"stages", 8}});
  CHECK(accepts(R"({"pipeline": 3})"));
  CHECK(accepts(R"({"pipeline": 5, "stage_layers": [0, 1, 1, 1, 1]})"));
  json fields = fields_of(R"({"pipeline": 2, "stage_layers": [1, 1, 2]})");
  CHECK(fields["count"] == 3);
  CHECK(fields["stages"] == 2);
  fields = fields_of(R"({"pipeline": 2, "stage_layers": [1, 2]})");
  CHECK(fields["sum"] == 3);
  CHECK(fields["model.layers"] == 4);
  CHECK(fields["layout.stage_layers"] == "[1,2]");
}

TEST_CASE("interleaving and the schedule belong together", "[checks]") {
  CHECK(fields_of(R"({"interleave": 2})") ==
        json{{"layout.interleave", 2}, {"layout.pipeline", 1}});
  CHECK(accepts(R"({"interleave": 2, "pipeline": 2})"));
  for (const std::string kind : {"gpipe", "zero_bubble", "one_forward_one_backward"}) {
    CHECK(fields_of(R"({"interleave": 2, "pipeline": 2, "schedule": ")" + kind + "\"}") ==
          json{{"layout.schedule", kind}, {"layout.interleave", 2}});
    CHECK(accepts(R"({"pipeline": 2, "schedule": ")" + kind + "\"}"));
  }
  CHECK(fields_of(R"({"pipeline": 2, "schedule": "interleaved"})") ==
        json{{"layout.schedule", "interleaved"}, {"layout.interleave", 1}});
}

TEST_CASE("zero_bubble is refused with sharded gradients", "[checks]") {
  for (const int64_t zero : {2, 3}) {
    CHECK(fields_of(R"({"schedule": "zero_bubble", "zero": )" + std::to_string(zero) + "}") ==
          json{{"layout.schedule", "zero_bubble"}, {"layout.zero", zero}});
  }
  CHECK(accepts(R"({"schedule": "zero_bubble", "zero": 1})"));
}

TEST_CASE("the batch is a multiple of replicas times micro-batch", "[checks]") {
  const json fields = fields_of(R"({"data": 2, "micro_batch": 3})");
  CHECK(fields == json{{"train.global_batch", 16},
                       {"layout.data", 2},
                       {"layout.micro_batch", 3},
                       {"samples", 16},
                       {"divisor", 6}});
  CHECK(accepts(R"({"data": 2, "micro_batch": 4})"));
}

TEST_CASE("interleaving needs micro-batches in multiples of the pipeline", "[checks]") {
  const std::string layers = R"({"model.layers": 6})";
  json fields = fields_of(R"({"interleave": 2, "pipeline": 3})", layers);
  CHECK(fields["micro_batches"] == 16);
  CHECK(fields["layout.pipeline"] == 3);
  CHECK(fields["nearest_below"] == 15);
  CHECK(fields["nearest_above"] == 18);
  CHECK(accepts(R"({"interleave": 2, "pipeline": 3})",
                R"({"model.layers": 6, "train.global_batch": 18})"));
  fields = fields_of(R"({"interleave": 2, "pipeline": 3, "micro_batch": 8})", layers);
  CHECK(fields["micro_batches"] == 2);
  CHECK_FALSE(fields.contains("nearest_below"));
}

TEST_CASE("every batch of a ramp obeys the same rules", "[checks]") {
  const std::string layout = R"({"data": 2, "micro_batch": 2})";
  CHECK(fields_of(layout, R"({"train.batch_ramp": [6, 4, 10]})")["samples"] == 6);
  CHECK(fields_of(layout, R"({"train.batch_ramp": [4, 6, 10]})")["samples"] == 6);
  CHECK(accepts(layout, R"({"train.batch_ramp": [4, 8, 10]})"));
  CHECK(accepts(layout, R"({"train.batch_ramp": [4, 13, 10]})"));  // one jump to the full batch
  CHECK(fields_of(R"({"interleave": 2, "pipeline": 2})",
                  R"({"train.batch_ramp": [3, 1, 10]})")["nearest_above"] == 4);
}

TEST_CASE("canonical sums are of parts that divide evenly", "[checks]") {
  const auto precision = [](const std::string& rest) {
    return R"({"precision": {"reduction": "canonical")" + rest + "}}";
  };
  CHECK(accepts("{}", precision("")));
  CHECK(accepts(R"({"tensor": 2, "data": 2, "zero": 1})", precision("")));
  CHECK(fields_of("{}", precision(R"(, "canonical_tensor": 3)")) ==
        json{{"precision.canonical_tensor", 3}});
  CHECK(fields_of("{}", precision(R"(, "canonical_data": 6)")) ==
        json{{"precision.canonical_data", 6}});
  CHECK(fields_of("{}", precision(R"(, "canonical_tensor": 4)")) ==
        json{{"model.heads", 6}, {"precision.canonical_tensor", 4}});
  CHECK(fields_of(R"({"tensor": 2})", precision(R"(, "canonical_tensor": 1)")) ==
        json{{"precision.canonical_tensor", 1}, {"layout.tensor", 2}});
  CHECK(fields_of(R"({"data": 4})", precision("")) ==
        json{{"precision.canonical_data", 2}, {"layout.data", 4}});
  CHECK(fields_of(R"({"micro_batch": 4})", precision(R"(, "canonical_data": 8)")) ==
        json{{"train.global_batch", 16},
             {"precision.canonical_data", 8},
             {"layout.micro_batch", 4},
             {"samples", 16},
             {"divisor", 32}});
  CHECK(fields_of(R"({"tensor": 2, "sequence_parallel": true})", precision("")) ==
        json{{"precision.reduction", "canonical"}, {"layout.sequence_parallel", "true"}});
  CHECK(fields_of(R"({"data": 2, "zero": 2})", precision("")) ==
        json{{"precision.reduction", "canonical"}, {"layout.zero", 2}});
  CHECK(fields_of(R"({"schedule": "zero_bubble"})", precision("")) ==
        json{{"precision.reduction", "canonical"}, {"layout.schedule", "zero_bubble"}});
  CHECK(accepts(R"({"tensor": "auto", "data": "auto", "zero": "auto"})", precision("")));
  // Ordered sums look at none of it.
  CHECK(accepts(R"({"tensor": 3})", R"({"precision.canonical_tensor": 5})"));
}

TEST_CASE("a world has no more ranks than an int32 counts", "[checks]") {
  const json fields = fields_of(R"({"tensor": 2, "pipeline": 4, "data": 1048576})",
                                R"({"train.global_batch": 1048576, "model.heads": 1048})");
  CHECK(fields.contains("model.heads"));  // found first: the hidden size is no multiple
  CHECK(fields_of(R"({"tensor": 16, "pipeline": 128, "data": 1048576})",
                  R"({"train.global_batch": 1048576, "model": {"heads": 16, "layers": 128}})") ==
        json{{"layout.tensor", 16},
             {"layout.pipeline", 128},
             {"layout.data", 1048576},
             {"ranks", int64_t{1} << 31},
             {"maximum", 2147483647}});
}

TEST_CASE("rules wait for what is left to the planner", "[checks]") {
  CHECK(accepts(R"({"tensor": "auto", "pipeline": "auto", "data": "auto", "interleave": "auto",
    "micro_batch": "auto", "schedule": "auto", "zero": "auto", "sequence_parallel": "auto",
    "recompute": "auto", "recompute_layers": "auto", "stage_layers": "auto",
    "scatter_gather": "auto", "overlap": "auto"})"));
  CHECK(accepts(R"({"tensor": "auto", "pipeline": 2})"));
  CHECK(fields_of(R"({"tensor": "auto", "pipeline": 9})")["stages"] == 9);
  CHECK(accepts(R"({"pipeline": "auto", "interleave": 2, "data": 16})"));
  CHECK(fields_of(R"({"pipeline": "auto", "interleave": 2, "data": 32})")["divisor"] == 32);
}
