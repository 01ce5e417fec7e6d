// Descriptions of hardware from keys: built-in ones, those of users, and what is wrong with them.
#include "engine/planner/hardware.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "engine/planner/builtin_hardware.h"
#include "tests/engine/config/config_samples.h"

using namespace plait;

namespace {

Config named(const char* name) {
  Config config;
  config.set("hardware.name", name);
  return config;
}

/// Every figure of dgx-a100 under another name, so that nothing stands behind what is taken away.
Config complete_description() {
  Config config;
  for (const BuiltinHardware& builtin : builtin_hardware()) {
    if (std::string(builtin.name) == "dgx-a100") config.load_json(builtin.json);
  }
  config.set("hardware.name", "ours");
  return config;
}

std::string provenance_of(const Hardware& hardware, const char* group) {
  for (const auto& [name, text] : hardware.provenance) {
    if (name == group) return text;
  }
  return "";
}

}  // namespace

TEST_CASE("built-in descriptions", "[hardware]") {
  CHECK(builtin_hardware_names() == std::vector<std::string>{"dgx-a100", "dgx-h100"});
  const Hardware a100 = make_hardware(named("dgx-a100"));
  CHECK(a100.kind == "cuda");
  CHECK(a100.units == 108);
  CHECK(a100.peak(DType::kFloat16) == 312e12);
  CHECK(a100.peak(DType::kBFloat16) == 312e12);
  CHECK(a100.peak(DType::kFloat32) == 19.5e12);
  CHECK(a100.peak(DType::kInt32) == 0);
  CHECK(a100.memory_limit() == (int64_t{80} << 30) - (int64_t{9} << 29));
  CHECK(a100.node_devices == 8);
  CHECK(a100.node_adapters == 8);
  CHECK(a100.tiles.size() == 6);
  CHECK(a100.tiles[2].rate == 0.93);
  CHECK(a100.points.empty());
  CHECK(a100.collectives.size() == 13);
  CHECK(a100.node_transfer.bytes_per_second == 200e9);
  CHECK(a100.fabric_transfer.alpha_seconds == 20e-6);
  CHECK(a100.fabric_transfer.bytes_per_second == 18.6e9);
  CHECK(a100.half_collective_alpha == 0.6);
  CHECK(a100.collective_seconds == 136e-6);
  CHECK(a100.step_seconds == 0.02);
  CHECK(a100.overlap_exponent == 3);
  CHECK(a100.failures.save_bytes_per_second == 273e9);
  CHECK_FALSE(a100.price_per_device_hour);
  REQUIRE(a100.calibration);
  CHECK(a100.calibration->profile == "megatron-2021");
  CHECK(a100.calibration->dtype == DType::kFloat16);
  CHECK(a100.calibration->points == 10);
  CHECK(a100.calibration->fitted.size() == 3);
  CHECK(a100.calibration->largest_world == 3072);
  CHECK(a100.provenance.size() == 11);
  CHECK(a100.provenance.front().first == "device");

  const Hardware h100 = make_hardware(named("dgx-h100"));
  CHECK(h100.units == 132);
  CHECK(h100.peak(DType::kBFloat16) == 989e12);
  CHECK(h100.memory_bytes_per_second == 3.35e12);
  CHECK(h100.fabric_transfer.bytes_per_second == 42e9);
  CHECK(h100.failures.per_device_hour == 2e-5);
  CHECK(h100.failures.restart_seconds == 600);
  CHECK_FALSE(h100.failures.load_bytes_per_second);
  CHECK_FALSE(h100.calibration);
  for (const auto& [group, text] : h100.provenance) {
    INFO(group);
    CHECK(text.find("fitted") == std::string::npos);
  }
}

TEST_CASE("keys stand before those of the built-in description", "[hardware]") {
  Config config = named("dgx-a100");
  config.set("hardware.node.devices", "16");
  config.set("hardware.price_per_device_hour", "2.5");
  config.set("hardware.transfers",
             R"([{"level": "node", "alpha_seconds": 0, "bytes_per_second": 5}])");
  config.set("hardware.provenance.node", "data sheet of ours");
  const Hardware hardware = make_hardware(config);
  CHECK(hardware.node_devices == 16);
  CHECK(hardware.units == 108);
  CHECK(hardware.price_per_device_hour == 2.5);
  CHECK(hardware.node_transfer.bytes_per_second == 5);
  CHECK(hardware.fabric_transfer.bytes_per_second == 0);  // a list is replaced as a whole
  CHECK(provenance_of(hardware, "node") == "data sheet of ours");
  CHECK(provenance_of(hardware, "transfers").starts_with("given without provenance, or fabric"));
  CHECK(provenance_of(hardware, "price_per_device_hour") == "given without provenance");
  CHECK(provenance_of(hardware, "stream") == "fitted on Table 1 of 2104.04473");
  CHECK(hardware.calibration);  // none of its constants has changed
}

TEST_CASE("a calibration does not outlive the constants that it fitted", "[hardware]") {
  Config config = named("dgx-a100");
  config.set("hardware.stream.efficiency", "0.632");
  CHECK(make_hardware(config).calibration);
  config.set("hardware.stream.efficiency", "0.7");
  CHECK_FALSE(make_hardware(config).calibration);
  config.load_json(R"({"hardware.calibration": {"profile": "plait", "dtype": "bfloat16",
    "points": 4, "p90_leave_one_out": 0.02, "largest_world": 2}})");
  const Hardware hardware = make_hardware(config);
  REQUIRE(hardware.calibration);
  CHECK(hardware.calibration->profile == "plait");
  CHECK(hardware.calibration->dtype == DType::kBFloat16);
  CHECK(hardware.calibration->p90_leave_one_out == 0.02);
}

TEST_CASE("hardware that is not given is asked for", "[hardware]") {
  Caught error = caught([] { make_hardware(Config()); });
  CHECK(error.word == "argument");
  CHECK(error.fields["key"] == "hardware.name");
  CHECK(error.fields["choices"] == "dgx-a100,dgx-h100");
  CHECK(error.message.find("plait measure-links") != std::string::npos);
  error = caught([] { make_hardware(named("dgx-h10")); });
  CHECK(error.word == "argument");
  CHECK(error.fields["value"] == "dgx-h10");
  CHECK(error.fields["nearest"] == "dgx-h100");
}

TEST_CASE("figures that every plan needs are missed by name", "[hardware]") {
  CHECK(make_hardware(complete_description()).name == "ours");
  const char* needed[] = {"hardware.device.kind",
                          "hardware.device.units",
                          "hardware.device.memory_bytes",
                          "hardware.device.memory_bytes_per_second",
                          "hardware.node.devices",
                          "hardware.matmul.efficiency",
                          "hardware.matmul.k_overhead",
                          "hardware.matmul.tiles",
                          "hardware.stream.efficiency",
                          "hardware.half_collective_alpha",
                          "hardware.overheads.collective_seconds",
                          "hardware.overheads.operation_seconds",
                          "hardware.overheads.step_seconds",
                          "hardware.overlap_exponent"};
  for (const char* key : needed) {
    INFO(key);
    Config config = complete_description();
    config.set(key, nullptr);
    const Caught error = caught([&] { make_hardware(config); });
    CHECK(error.word == "argument");
    CHECK(error.fields["key"] == key);
    CHECK(error.fields["missing"] == key);
    CHECK(error.message.find("hardware.name") != std::string::npos);
  }
  Config config = complete_description();
  config.set("hardware.matmul.tiles", "[]");
  config.set("hardware.device.units", nullptr);
  const Caught error = caught([&] { make_hardware(config); });
  CHECK(error.fields["missing"] == "hardware.device.units,hardware.matmul.tiles");
  config = complete_description();
  config.set("hardware.collectives", nullptr);
  config.set("hardware.half_collective_alpha", nullptr);
  CHECK(make_hardware(config).collectives.empty());
}

TEST_CASE("negative figures are refused with their key and value", "[hardware]") {
  for (const char* key :
       {"hardware.device.memory_bytes", "hardware.device.memory_bytes_per_second",
        "hardware.node.devices", "hardware.matmul.efficiency", "hardware.stream.efficiency",
        "hardware.overheads.step_seconds", "hardware.device.peak_flops_per_second.bfloat16"}) {
    INFO(key);
    Config config = complete_description();
    const Caught error = caught([&] { config.set(key, "-3"); });
    CHECK(error.word == "argument");
    CHECK(error.fields["key"] == key);
    CHECK(error.fields["value"] == "-3");
    CHECK((error.fields.contains("above") || error.fields.contains("minimum")));
  }
}

TEST_CASE("bad elements of lists are refused by place, field, value and what would do",
          "[hardware]") {
  const std::string collectives = "hardware.collectives", transfers = "hardware.transfers",
                    points = "hardware.matmul.points", tiles = "hardware.matmul.tiles";
  const std::string line =
      R"({"members_per_node": 2, "nodes": 1, "alpha_seconds": 1e-5, "bytes_per_second": 1e9})";
  const auto with = [&](const char* from, const char* to) {
    std::string text = line;
    text.replace(text.find(from), std::string(from).size(), to);
    return "[" + line.substr(0, line.find('2')) + "4" + line.substr(line.find('2') + 1) + "," +
           text + "]";
  };
  using Json = nlohmann::json;
  const struct {
    std::string key, text;
    Json fields;  // besides the key
  } cases[] = {
      {collectives,
       with("1e9", "-1e9"),
       {{"element", 1},
        {"field", "bytes_per_second"},
        {"value", -1e9},
        {"above", 0},
        {"nearest", 1e9}}},
      {collectives, with("1e9", "0"), {{"element", 1}, {"value", 0}, {"above", 0}}},
      {collectives,
       with("1e-5", "-1e-5"),
       {{"element", 1}, {"field", "alpha_seconds"}, {"minimum", 0}, {"nearest", 1e-5}}},
      {collectives,
       with("1e9", "\"fast\""),
       {{"element", 1}, {"field", "bytes_per_second"}, {"expected", "real"}}},
      {collectives,
       with("\"nodes\": 1, ", ""),
       {{"element", 1}, {"field", "nodes"}, {"nearest", "add nodes"}}},
      {collectives, with("\"nodes\": 1", "\"nodes\": null"), {{"field", "nodes"}}},
      {collectives, with("\"nodes\"", "\"node\""), {{"field", "node"}, {"nearest", "nodes"}}},
      {collectives,
       with("\"nodes\": 1", "\"nodes\": 1.5"),
       {{"field", "nodes"}, {"value", 1.5}, {"expected", "integer"}}},
      {collectives,
       with("\"nodes\": 1", "\"nodes\": 0"),
       {{"field", "nodes"}, {"minimum", 1}, {"nearest", 1}}},
      {collectives,
       with("\"nodes\": 1", "\"nodes\": 1e12"),
       {{"field", "nodes"}, {"maximum", 2147483647}, {"nearest", 2147483647}}},
      {collectives,
       with(": 2", ": 4"),
       {{"element", 1}, {"first", 0}, {"members_per_node", 4}, {"nodes", 1}}},
      {collectives, with(": 2", ": 1"), {{"element", 1}, {"nearest", "leave it out"}}},
      {collectives,
       with("1e9", "1e9, \"residual\": -0.5"),
       {{"field", "residual"}, {"minimum", 0}, {"nearest", 0.5}}},
      {collectives,
       with("1e9", "1e9, \"points\": [[8, 1], [4, 2]]"),
       {{"field", "points"}, {"value", 4}, {"above", 8}}},
      {collectives, with("1e9", "1e9, \"points\": [[8, 1, 3]]"), {{"field", "points"}}},
      {collectives, with("1e9", "1e9, \"points\": []"), {{"field", "points"}}},
      {collectives,
       with("1e9", "1e9, \"points\": [[8, -1]]"),
       {{"field", "points"}, {"value", -1}, {"nearest", 1}}},
      {collectives, "[7]", {{"element", 0}, {"value", 7}, {"expected", "object"}}},
      {transfers,
       R"([{"level": "rack", "alpha_seconds": 0, "bytes_per_second": 1}])",
       {{"element", 0}, {"field", "level"}, {"choices", "node,fabric"}}},
      {transfers,
       R"([{"level": "node", "alpha_seconds": 0, "bytes_per_second": 1},
                      {"level": "node", "alpha_seconds": 0, "bytes_per_second": 1}])",
       {{"element", 1}, {"field", "level"}, {"nearest", "leave one out"}}},
      {points,
       R"([{"m": 1, "n": 2, "k": 3, "dtype": "float64", "seconds": 1}])",
       {{"field", "dtype"}, {"choices", "float32,bfloat16,float16"}}},
      {points,
       R"([{"m": 1, "n": 2, "k": 3, "dtype": "float32", "seconds": 0}])",
       {{"field", "seconds"}, {"above", 0}}},
      {tiles, "[[64, 64, 1], [64, 64]]", {{"element", 1}, {"expected", "[rows, columns, rate]"}}},
      {tiles, "[[64, 64, 1.5]]", {{"field", "rate"}, {"maximum", 1}, {"nearest", 1}}},
      {tiles, "[[-64, 64, 1]]", {{"field", "rows"}, {"minimum", 1}, {"nearest", 64}}},
  };
  for (const auto& c : cases) {
    INFO(c.key << " = " << c.text);
    Config config = complete_description();
    config.set(c.key, c.text);
    const Caught error = caught([&] { make_hardware(config); });
    CHECK(error.word == "argument");
    CHECK(error.fields["key"] == c.key);
    for (const auto& [name, value] : c.fields.items()) {
      INFO(name);
      CHECK(error.fields[name] == value);
    }
  }
}

TEST_CASE("lists are read whole", "[hardware]") {
  Config config = complete_description();
  config.set("hardware.collectives",
             R"([{"members_per_node": 2, "nodes": 1, "alpha_seconds": 1e-5,
                  "bytes_per_second": 1e9, "residual": 0.2, "points": [[1e6, 0.5], [2e6, 1]]}])");
  config.set("hardware.matmul.points",
             R"([{"m": 4, "n": 5, "k": 6, "dtype": "bfloat16", "seconds": 0.5},
                 {"m": 4.0, "n": 5, "k": 6, "batch": 7, "dtype": "float32", "seconds": 1}])");
  const Hardware hardware = make_hardware(config);
  REQUIRE(hardware.collectives.size() == 1);
  CHECK(hardware.collectives[0].residual == 0.2);
  CHECK(hardware.collectives[0].points ==
        std::vector<std::pair<double, double>>{{1e6, 0.5}, {2e6, 1}});
  REQUIRE(hardware.points.size() == 2);
  CHECK(hardware.points[0].batch == 1);
  CHECK(hardware.points[0].dtype == DType::kBFloat16);
  CHECK(hardware.points[1].m == 4);
  CHECK(hardware.points[1].batch == 7);
  CHECK(hardware.points[1].seconds == 1);
}

TEST_CASE("figures that contradict each other are refused", "[hardware]") {
  Config config = complete_description();
  config.set("hardware.device.reserve_bytes", "85899345920");
  Caught error = caught([&] { make_hardware(config); });
  CHECK(error.word == "argument");
  CHECK(error.fields["key"] == "hardware.device.reserve_bytes");
  CHECK(error.fields["below"] == 85899345920);
  config = complete_description();
  config.set("hardware.node.devices", "4");
  error = caught([&] { make_hardware(config); });
  CHECK(error.fields["key"] == "hardware.collectives");
  CHECK(error.fields["element"] == 2);
  CHECK(error.fields["value"] == 8);
  CHECK(error.fields["maximum"] == 4);
  config = complete_description();
  config.set("hardware.calibration.largest_world", nullptr);
  error = caught([&] { make_hardware(config); });
  CHECK(error.fields["missing"] == "hardware.calibration.largest_world");
}

TEST_CASE("a peak that is not given is the best of the measured products", "[hardware]") {
  Config config = complete_description();
  config.set("hardware.device.peak_flops_per_second.float32", nullptr);
  CHECK(make_hardware(config).peak(DType::kFloat32) == 0);
  config.set("hardware.matmul.points",
             R"([{"m": 100, "n": 100, "k": 100, "dtype": "float32", "seconds": 0.5},
                 {"m": 100, "n": 100, "k": 100, "batch": 4, "dtype": "float32", "seconds": 1},
                 {"m": 100, "n": 100, "k": 100, "dtype": "float16", "seconds": 1e-9}])");
  const Hardware hardware = make_hardware(config);
  CHECK(hardware.peak(DType::kFloat32) == 8e6);
  CHECK(hardware.peak(DType::kFloat16) == 312e12);
  CHECK(provenance_of(hardware, "device").find("peak of float32") != std::string::npos);
  CHECK(provenance_of(hardware, "device").find("peak of float16") == std::string::npos);
}
