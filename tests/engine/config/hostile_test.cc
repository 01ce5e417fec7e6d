// Hostile bytes: the fuzz entry on mutations of real configurations, a fixed sequence of them.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "tests/engine/config/config_samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

using namespace plait;

namespace {

void feed(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

std::string mutate(std::string text, std::mt19937_64& random) {
  static const std::vector<std::string> kPieces = {
      "{",          "}",    "[",       "]",      "\"",   ",",       ":",    ".",
      "null",       "true", "-",       "1e999",  "auto", "\\u0000", "\xFF", "9223372036854775808",
      "\"model\":", "0.5",  "{\"a\":", "\\ud800"};
  const size_t edits = 1 + random() % 4;
  for (size_t i = 0; i < edits; ++i) {
    const size_t at = random() % (text.size() + 1);
    switch (random() % 4) {
      case 0:
        text.insert(at, kPieces[random() % kPieces.size()]);
        break;
      case 1:
        text.erase(at, random() % 8);
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      default:
        text.insert(at, text.substr(random() % (text.size() + 1), random() % 32));
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("mutated configurations load whole or not at all", "[hostile]") {
  Config rich = small_config();
  rich.load_json(R"({"data.train": ["a", "b"], "hardware.collectives": [{"nodes": [1]}],
    "layout.stage_layers": "auto", "network.token": "t", "optimizer.lr": 1e-5,
    "planner.search": ["gpipe"], "precision.loss_scale": "dynamic"})");
  const std::vector<std::string> seeds = {
      small_config().dump_json(true), rich.dump_json(false),
      R"({"model": {"family": "llama", "layers": 2}, "layout": {"tensor": "auto"}})",
      R"({"hardware": {"matmul": {"tiles": [[1, 2, 0.5]]}, "name": "\u20ac"}, "seed": null})"};
  std::mt19937_64 random(20240229);
  for (int round = 0; round < 4000; ++round) feed(mutate(seeds[round % seeds.size()], random));
  SUCCEED("no crash, no foreign exception, no lost value");
}

TEST_CASE("deep, long and repeated structures are refused, not obeyed", "[hostile]") {
  std::string deep, wide = "{";
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  feed(deep);
  feed(std::string(1 << 20, '['));
  feed("{\"" + std::string(1 << 20, 'k') + "\": 1}");
  feed("{\"hardware.name\": \"" + std::string(1 << 20, 'v') + "\"}");
  for (int i = 0; i < 20000; ++i) wide += "\"k" + std::to_string(i) + "\": {},";
  feed(wide + "\"seed\": 1}");
  CHECK(caught([&] { Config().load_json(deep); }).fields["limit"] == 16);
}
