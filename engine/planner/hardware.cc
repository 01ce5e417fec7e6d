#include "engine/planner/hardware.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "engine/planner/builtin_hardware.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr std::string_view kHardwarePrefix = "hardware.";
constexpr std::string_view kProvenancePrefix = "hardware.provenance.";
constexpr const char* kUnknownSource = "given without provenance";

/// What no plan can do without.
constexpr const char* kNeededFigures[] = {
    "hardware.device.kind",
    "hardware.device.units",
    "hardware.device.memory_bytes",
    "hardware.device.memory_bytes_per_second",
    "hardware.node.devices",
    "hardware.matmul.efficiency",
    "hardware.matmul.k_overhead",
    "hardware.matmul.tiles",
    "hardware.stream.efficiency",
    "hardware.overheads.collective_seconds",
    "hardware.overheads.operation_seconds",
    "hardware.overheads.step_seconds",
    "hardware.overlap_exponent",
};

/// Names with commas between them.
std::string comma_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

/// Calls `act` for all keys of the group that `config` sets.
template <class Act>
void for_set_keys(const Config& config, Act act) {
  for (const KeyInfo& info : all_keys()) {
    const std::string_view key = info.name;
    if (key.starts_with(kHardwarePrefix) && config.is_set(key)) act(key);
  }
}

/// The description of that name, empty without one.
Config named_builtin(std::string_view name) {
  Config config;
  for (const BuiltinHardware& builtin : builtin_hardware()) {
    if (builtin.name == name) config.load_json(builtin.json);
  }
  return config;
}

/// Throws unless something is described or named.
void require_description(const Config& given) {
  const std::string name = given.get("hardware.name");
  size_t others = 0;
  for_set_keys(given, [&](std::string_view key) { others += key != "hardware.name"; });
  const std::vector<std::string> names = builtin_hardware_names();
  if (others > 0 || std::find(names.begin(), names.end(), name) != names.end()) return;
  if (name.empty()) {
    throw Error("argument",
                "no hardware to plan for: name a built-in description, or give what `plait "
                "measure-links` writes")
        .with("key", "hardware.name")
        .with("choices", comma_list(names))
        .subsystem("engine/planner");
  }
  const auto nearest = std::min_element(names.begin(), names.end(), [&](auto& a, auto& b) {
    return edit_distance(a, name) < edit_distance(b, name);
  });
  throw Error("argument", "no description of hardware has this name, and no figures are given")
      .with("key", "hardware.name")
      .with("value", name)
      .with("nearest", *nearest)
      .with("choices", comma_list(names))
      .subsystem("engine/planner");
}

void require_figures(const Config& config) {
  std::vector<std::string> missing;
  for (const char* key : kNeededFigures) {
    const std::string value = config.get(key);
    if (value.empty() || value == "[]") missing.emplace_back(key);
  }
  const bool has_collectives = config.get("hardware.collectives").size() > 2;
  if (has_collectives && !config.is_set("hardware.half_collective_alpha")) {
    missing.emplace_back("hardware.half_collective_alpha");
  }
  if (missing.empty()) return;
  throw Error("argument",
              "the description of the hardware lacks figures: give them, or set hardware.name to a "
              "built-in description that stands in for them")
      .with("key", missing.front())
      .with("missing", comma_list(missing))
      .with("choices", comma_list(builtin_hardware_names()))
      .subsystem("engine/planner");
}

/// 0 where nothing is given.
double real_or_zero(const Config& config, std::string_view key) {
  return config.get(key).empty() ? 0 : config.get_real(key);
}

std::optional<double> optional_real(const Config& config, std::string_view key) {
  if (config.get(key).empty()) return std::nullopt;
  return config.get_real(key);
}

void fill_device(const Config& config, Hardware* hardware) {
  hardware->name = config.get("hardware.name");
  hardware->kind = config.get("hardware.device.kind");
  hardware->model = config.get("hardware.device.model");
  hardware->units = config.get_integer("hardware.device.units");
  hardware->isa = config.get("hardware.device.isa");
  const std::string peak = "hardware.device.peak_flops_per_second.";
  hardware->peak_float32 = real_or_zero(config, peak + "float32");
  hardware->peak_bfloat16 = real_or_zero(config, peak + "bfloat16");
  hardware->peak_float16 = real_or_zero(config, peak + "float16");
  hardware->memory_bytes = config.get_integer("hardware.device.memory_bytes");
  if (config.is_set("hardware.device.reserve_bytes")) {
    hardware->reserve_bytes = config.get_integer("hardware.device.reserve_bytes");
  }
  hardware->memory_bytes_per_second = config.get_real("hardware.device.memory_bytes_per_second");
  hardware->node_devices = config.get_integer("hardware.node.devices");
  if (config.is_set("hardware.node.adapters")) {
    hardware->node_adapters = config.get_integer("hardware.node.adapters");
  }
}

void fill_costs(const Config& config, Hardware* hardware) {
  hardware->product_efficiency = config.get_real("hardware.matmul.efficiency");
  hardware->product_k_overhead = config.get_real("hardware.matmul.k_overhead");
  hardware->tiles = make_product_tiles(config);
  hardware->points = make_product_points(config);
  hardware->stream_efficiency = config.get_real("hardware.stream.efficiency");
  const std::string attention = "hardware.attention.";
  hardware->attention_forward_efficiency = real_or_zero(config, attention + "forward_efficiency");
  hardware->attention_backward_efficiency = real_or_zero(config, attention + "backward_efficiency");
  hardware->collectives = make_collectives(config);
  hardware->half_collective_alpha = real_or_zero(config, "hardware.half_collective_alpha");
  const TransferLines transfers = make_transfers(config);
  hardware->node_transfer = transfers.node;
  hardware->fabric_transfer = transfers.fabric;
  hardware->collective_seconds = config.get_real("hardware.overheads.collective_seconds");
  hardware->operation_seconds = config.get_real("hardware.overheads.operation_seconds");
  hardware->step_seconds = config.get_real("hardware.overheads.step_seconds");
  hardware->overlap_exponent = config.get_real("hardware.overlap_exponent");
}

void fill_failures(const Config& config, Hardware* hardware) {
  const std::string prefix = "hardware.failures.";
  hardware->failures = {
      .per_device_hour = config.get_real(prefix + "per_device_hour"),
      .detect_seconds = config.get_real(prefix + "detect_seconds"),
      .restart_seconds = config.get_real(prefix + "restart_seconds"),
      .load_bytes_per_second = optional_real(config, prefix + "load_bytes_per_second"),
      .save_bytes_per_second = optional_real(config, prefix + "save_bytes_per_second")};
  hardware->price_per_device_hour = optional_real(config, "hardware.price_per_device_hour");
}

DType dtype_named(std::string_view name) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return DType::kFloat32;
}

/// None where no profile is named; then nothing was fitted.
std::optional<Calibration> calibration_of(const Config& config) {
  const std::string prefix = "hardware.calibration.";
  if (config.get(prefix + "profile").empty()) return std::nullopt;
  std::vector<std::string> missing;
  for (const char* name : {"dtype", "points", "p90_leave_one_out", "largest_world"}) {
    if (!config.is_set(prefix + name)) missing.push_back(prefix + name);
  }
  if (!missing.empty()) {
    throw Error("argument",
                "a calibration of the hardware lacks figures: give them, or leave it out")
        .with("key", missing.front())
        .with("missing", comma_list(missing))
        .subsystem("engine/planner");
  }
  return Calibration{
      .profile = config.get(prefix + "profile"),
      .data = config.get(prefix + "data"),
      .date = config.get(prefix + "date"),
      .version = config.get(prefix + "version"),
      .dtype = dtype_named(config.get(prefix + "dtype")),
      .points = config.get_integer(prefix + "points"),
      .fitted = config.get_texts(prefix + "fitted"),
      .rms = real_or_zero(config, prefix + "rms"),
      .maximum = real_or_zero(config, prefix + "maximum"),
      .p90_leave_one_out = config.get_real(prefix + "p90_leave_one_out"),
      .maximum_leave_one_out = real_or_zero(config, prefix + "maximum_leave_one_out"),
      .largest_world = config.get_integer(prefix + "largest_world")};
}

/// Whether `given` replaces a number that `calibration`, of the built-in description, was fitted
/// with.
bool replaces_fitted(const Config& given, const Config& builtin, const Calibration& calibration) {
  if (given.is_set("hardware.calibration.profile")) return false;
  return std::any_of(
      calibration.fitted.begin(), calibration.fitted.end(), [&](const std::string& name) {
        const std::string key = std::string(kHardwarePrefix) + name;
        return find_key(key) != nullptr && given.is_set(key) && given.get(key) != builtin.get(key);
      });
}

/// Whether `config` sets a key of the group: "device", "collectives", ….
bool sets_group(const Config& config, std::string_view group) {
  bool is_set = false;
  for_set_keys(config, [&](std::string_view key) {
    key.remove_prefix(kHardwarePrefix.size());
    if (!key.starts_with(group)) return;
    key.remove_prefix(group.size());
    is_set = is_set || key.empty() || key.front() == '.';
  });
  return is_set;
}

void fill_provenance(const Config& given, const Config& builtin, Hardware* hardware) {
  for (const KeyInfo& info : all_keys()) {
    std::string_view group = info.name;
    if (!group.starts_with(kProvenancePrefix)) continue;
    group.remove_prefix(kProvenancePrefix.size());
    std::string text = given.get(info.name);
    if (text.empty()) {
      text = builtin.get(info.name);
      if (sets_group(given, group)) {
        text = kUnknownSource + (text.empty() ? text : ", or " + text);
      }
    }
    if (!text.empty()) hardware->provenance.emplace_back(group, text);
  }
}

void fill_peaks(Hardware* hardware) {
  const std::pair<DType, double*> peaks[] = {{DType::kFloat32, &hardware->peak_float32},
                                             {DType::kBFloat16, &hardware->peak_bfloat16},
                                             {DType::kFloat16, &hardware->peak_float16}};
  for (const auto& [dtype, peak] : peaks) {
    if (*peak > 0) continue;
    for (const ProductPoint& point : hardware->points) {
      if (point.dtype != dtype) continue;
      const double flops = 2.0 * static_cast<double>(point.m) * static_cast<double>(point.n) *
                           static_cast<double>(point.k) * static_cast<double>(point.batch);
      *peak = std::max(*peak, flops / point.seconds);
    }
    if (*peak == 0) continue;
    const std::string text =
        std::string("peak of ") + dtype_name(dtype) + ": the best rate of the measured products";
    const auto device = std::find_if(hardware->provenance.begin(), hardware->provenance.end(),
                                     [](const auto& entry) { return entry.first == "device"; });
    if (device == hardware->provenance.end()) {
      hardware->provenance.emplace(hardware->provenance.begin(), "device", text);
    } else {
      device->second += "; " + text;
    }
  }
}

void require_sense(const Hardware& hardware) {
  if (hardware.reserve_bytes >= hardware.memory_bytes) {
    throw Error("argument", "hardware.device.reserve_bytes leaves nothing of the memory")
        .with("key", "hardware.device.reserve_bytes")
        .with("value", hardware.reserve_bytes)
        .with("below", hardware.memory_bytes)
        .subsystem("engine/planner");
  }
  for (size_t i = 0; i < hardware.collectives.size(); ++i) {
    const int64_t members = hardware.collectives[i].members_per_node;
    if (members <= hardware.node_devices) continue;
    throw Error("argument", "a line of hardware.collectives has more members on a node than ranks")
        .with("key", "hardware.collectives")
        .with("element", i)
        .with("field", "members_per_node")
        .with("value", members)
        .with("maximum", hardware.node_devices)
        .with("hardware.node.devices", hardware.node_devices)
        .subsystem("engine/planner");
  }
}

}  // namespace

double Hardware::peak(DType dtype) const {
  switch (dtype) {
    case DType::kFloat32:
      return peak_float32;
    case DType::kBFloat16:
      return peak_bfloat16;
    case DType::kFloat16:
      return peak_float16;
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
      return 0;
  }
  return 0;
}

Hardware make_hardware(const Config& given) {
  require_description(given);
  const Config builtin = named_builtin(given.get("hardware.name"));
  Config config = given;
  for_set_keys(builtin, [&](std::string_view key) {
    if (!given.is_set(key)) config.set(key, builtin.get(key));
  });
  require_figures(config);
  Hardware hardware;
  fill_device(config, &hardware);
  fill_costs(config, &hardware);
  fill_failures(config, &hardware);
  require_sense(hardware);
  hardware.calibration = calibration_of(config);
  if (hardware.calibration && replaces_fitted(given, builtin, *hardware.calibration)) {
    hardware.calibration.reset();
  }
  fill_provenance(given, builtin, &hardware);
  fill_peaks(&hardware);
  return hardware;
}

std::vector<std::string> builtin_hardware_names() {
  std::vector<std::string> names;
  for (const BuiltinHardware& builtin : builtin_hardware()) names.emplace_back(builtin.name);
  return names;
}

}  // namespace plait
