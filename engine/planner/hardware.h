// What a plan runs on: devices, nodes, and what links, products and streams cost there.
//
// Filled from the keys hardware.*; a built-in description stands behind those that are not set when
// hardware.name is one of its names. Seconds, bytes, bytes per second, FLOP per second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "kernels/base/dtype.h"

namespace plait {

/// Cost of all-reduces in one shape of group: alpha + 2(n − 1)/n · bytes / bytes_per_second.
struct CollectiveLine {
  int64_t members_per_node = 1;
  int64_t nodes = 1;
  double alpha_seconds = 0;
  double bytes_per_second = 0;
  double residual = 0;  ///< largest relative error of the line where it was fitted
  /// {bytes, seconds} measured, ascending; kept where the line fits badly.
  std::vector<std::pair<double, double>> points;
};

/// Sending from one rank to another while all pairs do: alpha + bytes / bytes_per_second.
struct TransferLine {
  double alpha_seconds = 0;
  double bytes_per_second = 0;
};

/// A measured matrix product [m×k]·[k×n], `batch` of them.
struct ProductPoint {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::kFloat32;
  double seconds = 0;
};

struct ProductTile {
  int64_t rows = 0, columns = 0;
  double rate = 1;  ///< of the best tile's
};

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
  double attention_forward_efficiency = 0;
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

  double peak(DType dtype) const;
  /// Bytes that an engine may take on one device.
  int64_t memory_limit() const { return memory_bytes - reserve_bytes; }
};

/// Throws `argument` naming the key that is missing, or whose list has elements without a field, of
/// a wrong type, or out of range (key, element, field, value).
Hardware make_hardware(const Config& config);

/// Names of the built-in descriptions.
std::vector<std::string> builtin_hardware_names();

}  // namespace plait
