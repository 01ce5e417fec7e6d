// What a plan runs on: devices, nodes, and what links, products and streams cost there.
//
// Filled from the keys hardware.*; a built-in description stands behind those that are not set when
// hardware.name is its name. Seconds, bytes, bytes per second, FLOP per second. The structs of list
// elements are those of engine/config/hardware_lists.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "engine/config/hardware_lists.h"
#include "kernels/base/dtype.h"

namespace plait {

struct Failures {
  double per_device_hour = 0;
  double detect_seconds = 0;
  double restart_seconds = 0;
  std::optional<double> load_bytes_per_second;
  std::optional<double> save_bytes_per_second;
};

/// What fitted numbers rest on.
struct Calibration {
  std::string profile;
  std::string data, date, version;
  DType dtype = DType::kFloat16;
  int64_t points = 0;
  std::vector<std::string> fitted;
  double rms = 0, maximum = 0;
  double p90_leave_one_out = 0, maximum_leave_one_out = 0;
  int64_t largest_world = 1;
};

struct Hardware {
  std::string name;
  std::string kind;   ///< `cuda` or `cpu`
  std::string model;  ///< of the device
  int64_t units = 1;
  /// Of a CPU: instruction set of the kernels, which decides how they keep weights.
  std::string isa = "avx512";
  double peak_float32 = 0, peak_bfloat16 = 0, peak_float16 = 0;  ///< 0: not given
  int64_t memory_bytes = 0;
  int64_t reserve_bytes = 0;
  double memory_bytes_per_second = 0;
  int64_t node_devices = 1;
  int64_t node_adapters = 0;
  double product_efficiency = 0;
  double product_k_overhead = 0;
  std::vector<ProductTile> tiles;
  std::vector<ProductPoint> points;
  double stream_efficiency = 0;
  double attention_forward_efficiency = 0;  ///< of the rate of large products; 0: not given
  double attention_backward_efficiency = 0;
  std::vector<CollectiveLine> collectives;
  double half_collective_alpha = 0;
  TransferLine node_transfer, fabric_transfer;
  double collective_seconds = 0;  ///< added to every collective of a layer, the embedding, the head
  double operation_seconds = 0;   ///< added to every product
  double step_seconds = 0;
  double overlap_exponent = 3;
  Failures failures;
  std::optional<double> price_per_device_hour;
  std::optional<Calibration> calibration;
  /// {group of keys, where its numbers come from}, in the order of the table.
  std::vector<std::pair<std::string, std::string>> provenance;

  /// Dense peak of products; 0 where it is not known.
  double peak(DType dtype) const;
  /// Bytes that an engine may take on one device.
  int64_t memory_limit() const { return memory_bytes - reserve_bytes; }
};

/// A peak that is not given becomes the best rate of the measured products of its dtype, and
/// `provenance` says so. So it does of groups of keys that are set without a provenance. Where a
/// fitted number of a built-in description is replaced, its calibration no longer holds and is left
/// out.
///
/// Throws `argument`: nothing of hardware.* is set (key, choices); a name that no description has
/// (key, value, nearest); a description without the figures that every plan needs (key: the first,
/// missing: all of them), or with a list that is no good (engine/config/hardware_lists.h); figures
/// that contradict each other (their keys and values).
Hardware make_hardware(const Config& config);

/// Names of the built-in descriptions.
std::vector<std::string> builtin_hardware_names();

}  // namespace plait
