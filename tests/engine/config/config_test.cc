#include "engine/config/config.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/config/config_samples.h"

using namespace plait;
using nlohmann::json;

namespace {

Caught set_error(const char* key, const std::string& text) {
  return caught([&] { Config().set(key, text); });
}

Caught load_error(const std::string& text) {
  return caught([&] { Config().load_json(text); });
}

std::string canonical(const char* key, const std::string& text) {
  Config config;
  config.set(key, text);
  return config.get(key);
}

}  // namespace

TEST_CASE("values are kept in canonical form", "[config]") {
  CHECK(canonical("model.layers", "007") == "7");
  CHECK(canonical("export.max_shard_bytes", "5e9") == "5000000000");
  CHECK(canonical("optimizer.lr", "3.0e-4") == "3e-04");
  CHECK(canonical("optimizer.min_lr", "-0.0") == "0");
  CHECK(canonical("precision.loss_scale", "dynamic") == "dynamic");
  CHECK(canonical("precision.loss_scale", "1024.0") == "1024");
  CHECK(canonical("layout.stage_layers", " [1, 2,3 ]") == "[1,2,3]");
  CHECK(canonical("layout.stage_layers", "auto") == "auto");
  CHECK(canonical("data.split", "[0.90, 1e-1]") == "[0.9,0.1]");
  CHECK(canonical("data.train", "a b.bin") == "a b.bin");
  CHECK(canonical("data.train", R"(["a.bin"])") == "a.bin");
  CHECK(canonical("data.train", R"(["[a"])") == R"(["[a"])");
  CHECK(canonical("data.train", R"([ "a", "b" ])") == R"(["a","b"])");
  CHECK(canonical("data.train", "[]") == "");
  CHECK(canonical("threads", "auto") == "auto");
  CHECK(canonical("seed", "9223372036854775807") == "9223372036854775807");
  CHECK(canonical("hardware.name", "\xF0\x9F\x98\x80") == "\xF0\x9F\x98\x80");
}

TEST_CASE("a value out of range names key, value and limit", "[config]") {
  Caught error = set_error("model.layers", "0");
  CHECK(error.word == "argument");
  CHECK(error.fields == json{{"key", "model.layers"}, {"value", "0"}, {"minimum", 1}});
  error = set_error("layout.zero", "4");
  CHECK(error.fields == json{{"key", "layout.zero"}, {"value", "4"}, {"maximum", 3}});
  error = set_error("train.dropout", "1");
  CHECK(error.fields == json{{"key", "train.dropout"}, {"value", "1"}, {"below", 1}});
  error = set_error("optimizer.epsilon", "0");
  CHECK(error.fields == json{{"key", "optimizer.epsilon"}, {"value", "0"}, {"above", 0}});
  CHECK(set_error("seed", "9223372036854775808").fields.contains("maximum"));
  CHECK(set_error("seed", "-99999999999999999999").fields.contains("minimum"));
  CHECK(set_error("model.vocab_size", "2147483648").fields["maximum"] == 2147483647);
  CHECK(set_error("model.layers", "1e300").fields.contains("maximum"));
  CHECK(set_error("data.split", "[1.5]").fields["maximum"] == 1);
  CHECK(set_error("data.train_weights", "[1,0]").fields["above"] == 0);
}

TEST_CASE("a value of the wrong form names key, value and what is legal", "[config]") {
  Caught error = set_error("model.family", "bert");
  CHECK(error.word == "argument");
  CHECK(error.fields ==
        json{{"key", "model.family"}, {"value", "bert"}, {"choices", "gpt2,llama"}});
  error = set_error("threads", "many");
  CHECK(error.fields ==
        json{{"key", "threads"}, {"value", "many"}, {"expected", "integer"}, {"choices", "auto"}});
  for (const char* text : {"", " 4", "4 ", "+4", "0x4", "4.5", "nan", "inf", "4,"}) {
    INFO(text);
    CHECK(set_error("model.layers", text).fields["expected"] == "integer");
  }
  for (const char* text : {"", "inf", "nan", "1e999", "0.1f", "0,1"}) {
    INFO(text);
    CHECK(set_error("optimizer.lr", text).fields["expected"] == "real");
  }
  CHECK(set_error("data.shuffle", "yes").fields["expected"] == "boolean");
  CHECK(set_error("data.shuffle", "auto").word == "argument");
  CHECK(set_error("layout.overlap", "auto").word.empty());
  for (const char* text : {"", "1,2", "{}", "[1", "[true]", "[\"1\"]", "[1.5]", "[[1]]"}) {
    INFO(text);
    CHECK(set_error("layout.stage_layers", text).fields["expected"] == "list");
  }
  CHECK(set_error("planner.search", R"(["gpipe","zero9"])").fields["value"] == "zero9");
  CHECK(set_error("data.train", R"(["a",""])").word == "argument");
  CHECK(set_error("hardware.name", std::string("a\0b", 3)).word == "argument");
  CHECK(set_error("hardware.name", "\xC0\x80").word == "argument");
  CHECK(set_error("hardware.name", std::string(1 << 20, '\xFF')).message.size() < 1000);
}

TEST_CASE("a failed set changes nothing, and null returns to the default", "[config]") {
  Config config;
  config.set("seed", "7");
  CHECK_THROWS_AS(config.set("seed", "x"), Error);
  CHECK(config.get("seed") == "7");
  CHECK(config.is_set("seed"));
  config.set("seed", nullptr);
  CHECK_FALSE(config.is_set("seed"));
  CHECK(config.get("seed") == "1234");
  CHECK(config == Config());
  CHECK(caught([&] { config.set("sede", "1"); }).fields["nearest"] == "seed");
  CHECK(caught([&] { config.get("sede"); }).fields["key"] == "sede");
  CHECK(caught([&] { config.is_set("sede"); }).word == "argument");
}

TEST_CASE("defaults follow from other keys", "[config]") {
  Config config;
  for (const char* key : {"model.key_value_heads", "model.head_size", "model.feed_forward",
                          "model.tied", "train.sequence_length"}) {
    INFO(key);
    CHECK(config.get(key).empty());
  }
  config = small_config();
  CHECK(config.get("model.key_value_heads") == "6");
  CHECK(config.get("model.head_size") == "8");
  CHECK(config.get("model.feed_forward") == "192");
  CHECK(config.get("model.tied") == "true");
  CHECK(config.get("train.sequence_length") == "32");
  CHECK(config.get("layout.schedule") == "one_forward_one_backward");
  CHECK(config.get("precision.residual") == "compute");
  config.set("model.family", "llama");
  CHECK(config.get("model.tied") == "false");
  config.set("layout.interleave", "2");
  CHECK(config.get("layout.schedule") == "interleaved");
  config.set("layout.interleave", "auto");
  CHECK(config.get("layout.schedule") == "auto");
  config.set("train.dropout", "0.25");
  CHECK(config.get("train.attention_dropout") == "0.25");
  config.set("train.attention_dropout", "0");
  CHECK(config.get("train.attention_dropout") == "0");
  config.set("model.hidden", "50");
  CHECK(config.get("model.head_size").empty());
}

TEST_CASE("typed reads refuse what is no number", "[config]") {
  Config config;
  CHECK(caught([&] { config.get_integer("model.layers"); }).fields["key"] == "model.layers");
  CHECK(caught([&] { config.get_boolean("model.tied"); }).fields["key"] == "model.tied");
  CHECK(caught([&] { config.get_real("precision.loss_scale"); }).fields["value"] == "dynamic");
  config.set("layout.tensor", "auto");
  config.set("layout.stage_layers", "auto");
  CHECK(config.is_auto("layout.tensor"));
  CHECK(caught([&] { config.get_integer("layout.tensor"); }).fields["value"] == "auto");
  CHECK(caught([&] { config.get_integers("layout.stage_layers"); }).fields["value"] == "auto");
  CHECK(config.get_texts("data.train").empty());
  config.set("data.train", "x.bin");
  CHECK(config.get_texts("data.train") == std::vector<std::string>{"x.bin"});
}

TEST_CASE("nested objects and dotted keys are the same", "[config]") {
  Config nested, dotted, mixed;
  nested.load_json(R"({"hardware": {"device": {"units": 108}}, "model": {"layers": 3}})");
  dotted.load_json(R"({"hardware.device.units": 108, "model.layers": 3})");
  mixed.load_json(R"({"hardware": {"device.units": 108}, "model.layers": 3.0})");
  CHECK(nested == dotted);
  CHECK(nested == mixed);
  CHECK(nested.get("hardware.device.units") == "108");
}

TEST_CASE("loading merges, and null returns to the default", "[config]") {
  Config config;
  config.load_json(R"({"seed": 5, "data": {"train": ["a", "b"], "shuffle": false}})");
  config.load_json(R"({"seed": null, "layout": {"tensor": "auto", "stage_layers": [1, 3]}})");
  CHECK_FALSE(config.is_set("seed"));
  CHECK(config.get("data.shuffle") == "false");
  CHECK(config.get_texts("data.train") == std::vector<std::string>{"a", "b"});
  CHECK(config.get_integers("layout.stage_layers") == std::vector<int64_t>{1, 3});
  CHECK(config.is_auto("layout.tensor"));
  config.load_json(R"({"model": {}})");
}

TEST_CASE("a load that fails changes nothing", "[config]") {
  Config config = small_config();
  const Config before = config;
  CHECK_THROWS_AS(config.load_json(R"({"seed": 9, "model.layers": -1})"), Error);
  CHECK_THROWS_AS(config.load_json(R"({"seed": 9, "model.layer": 1})"), Error);
  CHECK_THROWS_AS(config.load_json(R"({"seed": 9)"), Error);
  CHECK(config == before);
}

TEST_CASE("a load names what is wrong", "[config]") {
  CHECK(load_error(R"({"seed" 1})").fields["offset"] == 9);
  CHECK(load_error("").fields.contains("offset"));
  CHECK(load_error("[1]").fields["found"] == "array");
  CHECK(load_error(R"({"seed": 1, "seed": 2})").fields["key"] == "seed");
  CHECK(load_error(R"({"model": {"layers": 1}, "model.layers": 2})").fields["key"] ==
        "model.layers");
  CHECK(load_error(R"({"modle": {"layers": 1}})").fields ==
        json{{"key", "modle.layers"}, {"nearest", "model.layers"}});
  CHECK(load_error(R"({"model": 3})").fields["key"] == "model");
  CHECK(load_error(R"({"modle": {}})").fields["key"] == "modle");
  CHECK(load_error(R"({"": 1})").fields["key"] == "");
  CHECK(load_error(std::string(100000, '[')).fields["limit"] == 16);
  CHECK(load_error("{\"hardware.name\": \"\xFF\"}").fields.contains("offset"));
  CHECK(load_error(R"({"hardware.name": "a\u0000b"})").fields["key"] == "hardware.name");
  CHECK(load_error(std::string((16 << 20) + 1, ' ')).fields["limit"] == 16 << 20);
}

TEST_CASE("a load refuses values of the wrong JSON type", "[config]") {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"model.layers", R"("3")"},      {"model.layers", "true"},     {"model.layers", "[3]"},
      {"model.layers", R"({"a":1})"},  {"optimizer.lr", R"("1")"},   {"data.shuffle", R"("true")"},
      {"data.shuffle", "1"},           {"model.family", "1"},        {"hardware.name", "1"},
      {"run.checkpoint", R"(["a"])"},  {"data.train", R"({"a":1})"}, {"data.split", R"("[1]")"},
      {"planner.search", R"("gpipe")"}};
  for (const auto& [key, value] : wrong) {
    INFO(key << " " << value);
    const Caught error = load_error("{\"" + key + "\": " + value + "}");
    CHECK(error.word == "argument");
    CHECK(error.fields["key"] == key);
    CHECK(error.fields.contains("expected"));
    CHECK(error.fields.contains("found"));
  }
}

TEST_CASE("dump and load give the same configuration", "[config]") {
  Config config = small_config();
  config.load_json(R"({"optimizer.lr": 1e-5, "data.train": ["a", "\"q\"\n"], "threads": 3,
    "hardware": {"collectives": [{"nodes": 2, "alpha_seconds": 5.5e-5}], "name": "dgx \u20ac"},
    "planner.search": ["uneven"], "layout.tensor": "auto", "precision.loss_scale": 512})");
  Config again;
  again.load_json(config.dump_json(false));
  CHECK(again == config);
  CHECK(again.dump_json(false) == config.dump_json(false));
  Config complete;
  complete.load_json(config.dump_json(true));
  CHECK(complete.dump_json(true) == config.dump_json(true));
  CHECK(fingerprint(complete) == fingerprint(config));
  const json dumped = json::parse(config.dump_json(true));
  CHECK(dumped["model.head_size"] == 8);
  CHECK(dumped["model.tied"] == true);
  CHECK(dumped["optimizer.lr"] == 1e-5);
  CHECK(dumped["layout.tensor"] == "auto");
  CHECK(dumped["data.train"].is_array());
  CHECK_FALSE(dumped.contains("run.steps"));
  CHECK(json::parse(Config().dump_json(false)).empty());
}

TEST_CASE("the network token never leaves the configuration", "[config]") {
  Config config = small_config(), other = config;
  config.set("network.token", "hush-hush");
  other.set("network.token", "another");
  CHECK(config.get("network.token") == "hush-hush");
  CHECK(config.dump_json(true).find("hush") == std::string::npos);
  CHECK(config.dump_json(false).find("token") == std::string::npos);
  CHECK(fingerprint(config) == fingerprint(other));
  CHECK(differences(config, other).empty());
  const Caught error = set_error("network.token", "hush\xFF");
  CHECK(error.word == "argument");
  CHECK(error.message.find("hush") == std::string::npos);
  CHECK(load_error(R"({"network.token": ["hush"]})").message.find("hush") == std::string::npos);
}

TEST_CASE("the fingerprint sees every key that processes must share", "[config]") {
  const Config config = small_config();
  Config other = config;
  other.set("data.train", "elsewhere.bin");
  other.set("threads", "2");
  other.set("run.checkpoint", "/other");
  CHECK(fingerprint(other) == fingerprint(config));
  CHECK(differences(config, other).empty());
  other.set("seed", "1234");  // its default, said aloud
  CHECK(fingerprint(other) == fingerprint(config));
  other.set("train.dropout", "0.1");
  CHECK(fingerprint(other) != fingerprint(config));
  const std::vector<KeyDifference> found = differences(config, other);
  REQUIRE(found.size() == 2);
  CHECK(std::string(found[0].info->name) == "train.dropout");
  CHECK(found[0].first == "0");
  CHECK(found[0].second == "0.1");
  CHECK(std::string(found[1].info->name) == "train.attention_dropout");
}

TEST_CASE("a hardware file loads as a fragment", "[config]") {
  Config config;
  config.load_json(R"({"hardware": {"name": "pair", "device": {"kind": "cpu", "units": 2,
    "peak_flops_per_second": {"float32": 1.5e11}, "memory_bytes": 4294967296},
    "matmul": {"tiles": [[256, 128, 1.0]], "points": []}, "price_per_device_hour": null,
    "calibration": {"fitted": ["matmul.efficiency"], "rms": 0.018, "largest_world": 2},
    "provenance": {"device": "measured"}}})");
  CHECK(config.get("hardware.device.peak_flops_per_second.float32") == "1.5e+11");
  CHECK(config.get("hardware.matmul.tiles") == "[[256,128,1.0]]");
  CHECK(config.get("hardware.provenance.device") == "measured");
  CHECK_FALSE(config.is_set("hardware.price_per_device_hour"));
}
