#include "engine/planner/layout_keys.h"

#include <algorithm>
#include <string_view>

#include "engine/config/keys.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

/// The word of `key` whose place among the choices is that of the enumerator.
template <class Choice>
std::string choice_word(const char* key, Choice choice) {
  std::string_view words = key_info(key).choices;
  for (auto left = static_cast<int32_t>(choice); left > 0; --left) {
    words.remove_prefix(words.find(',') + 1);
  }
  return std::string(words.substr(0, words.find(',')));
}

std::string boolean_word(bool value) { return value ? "true" : "false"; }

/// Round numbers of an everyday processor core. What is compared are layouts on it.
constexpr const char* kAssumedCpu = R"({
  "hardware.name": "assumed-cpu",
  "hardware.device.kind": "cpu",
  "hardware.device.model": "an assumed processor core",
  "hardware.device.units": 1,
  "hardware.device.peak_flops_per_second.float32": 5e10,
  "hardware.device.peak_flops_per_second.bfloat16": 5e10,
  "hardware.device.peak_flops_per_second.float16": 5e10,
  "hardware.device.memory_bytes": 68719476736,
  "hardware.device.reserve_bytes": 0,
  "hardware.device.memory_bytes_per_second": 1e10,
  "hardware.node.devices": 64,
  "hardware.node.adapters": 1,
  "hardware.matmul.efficiency": 0.8,
  "hardware.matmul.k_overhead": 16,
  "hardware.matmul.tiles": [[64, 64, 1.0], [16, 64, 0.8], [4, 16, 0.5]],
  "hardware.stream.efficiency": 0.7,
  "hardware.attention.forward_efficiency": 0.5,
  "hardware.attention.backward_efficiency": 0.5,
  "hardware.collectives": [
    {"members_per_node": 2, "nodes": 1, "alpha_seconds": 2e-5, "bytes_per_second": 1e10},
    {"members_per_node": 64, "nodes": 1, "alpha_seconds": 2e-4, "bytes_per_second": 1e10},
    {"members_per_node": 1, "nodes": 2, "alpha_seconds": 1e-4, "bytes_per_second": 1e9}],
  "hardware.half_collective_alpha": 0.6,
  "hardware.transfers": [
    {"level": "node", "alpha_seconds": 1e-5, "bytes_per_second": 1e10},
    {"level": "fabric", "alpha_seconds": 1e-4, "bytes_per_second": 1e9}],
  "hardware.overheads.collective_seconds": 2e-5,
  "hardware.overheads.operation_seconds": 1e-5,
  "hardware.overheads.step_seconds": 1e-3,
  "hardware.overlap_exponent": 3,
  "hardware.provenance.device": "assumed",
  "hardware.provenance.node": "assumed",
  "hardware.provenance.matmul": "assumed",
  "hardware.provenance.stream": "assumed",
  "hardware.provenance.attention": "assumed",
  "hardware.provenance.collectives": "assumed",
  "hardware.provenance.half_collective_alpha": "assumed",
  "hardware.provenance.transfers": "assumed",
  "hardware.provenance.overheads": "assumed",
  "hardware.provenance.overlap_exponent": "assumed"
})";

/// Whether a key says what the ranks run on. Keys with defaults, which stand in every complete
/// configuration, and what hours cost say nothing of it.
bool describes_hardware(const Config& config) {
  return std::any_of(all_keys().begin(), all_keys().end(), [&](const KeyInfo& info) {
    const std::string_view key = info.name;
    return key.starts_with("hardware.") && info.default_text[0] == '\0' &&
           !key.starts_with("hardware.failures.") && !key.starts_with("hardware.provenance.") &&
           key != "hardware.price_per_device_hour" && config.is_set(key);
  });
}

}  // namespace

std::vector<std::pair<std::string, std::string>> layout_keys(const LayoutConfig& layout) {
  JsonArray counts;
  for (const int64_t count : layout.stage_layers) counts.add(std::to_string(count));
  return {{"layout.tensor", std::to_string(layout.tensor)},
          {"layout.pipeline", std::to_string(layout.pipeline)},
          {"layout.data", std::to_string(layout.data)},
          {"layout.interleave", std::to_string(layout.interleave)},
          {"layout.micro_batch", std::to_string(layout.micro_batch)},
          {"layout.schedule", choice_word("layout.schedule", layout.schedule)},
          {"layout.zero", std::to_string(layout.zero)},
          {"layout.sequence_parallel", boolean_word(layout.sequence_parallel)},
          {"layout.recompute", choice_word("layout.recompute", layout.recompute)},
          {"layout.recompute_layers", std::to_string(layout.recompute_layers)},
          {"layout.stage_layers", counts.text()},
          {"layout.scatter_gather", boolean_word(layout.scatter_gather)},
          {"layout.overlap", boolean_word(layout.overlap)}};
}

void set_layout(const LayoutConfig& layout, Config* config) {
  for (const auto& [key, value] : layout_keys(layout)) config->set(key, std::string_view(value));
}

Config with_assumed_hardware(const Config& config) {
  if (describes_hardware(config) || config.get("device") != "cpu") return config;
  Config described = config;
  described.load_json(kAssumedCpu);
  return described;
}

}  // namespace plait
