// A measured description of hardware as the text of a configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/trainer/measure_compute.h"
#include "engine/trainer/measure_links.h"
#include "kernels/base/env.h"

namespace plait {

/// What is known of a machine without measuring.
struct MachineFacts {
  std::string model;         ///< of the processor; empty: not told
  int64_t memory_bytes = 0;  ///< that this process may use; 0: not told
};
MachineFacts machine_facts(Files& files);

struct MeasuredHardware {
  std::string kind, model, isa;
  int64_t units = 1;
  int64_t memory_bytes = 0;  ///< of one rank
  int64_t node_devices = 1;
  DType dtype = DType::kFloat32;
  double given_peak = 0;  ///< FLOP per second in that dtype; 0: the best rate that was seen
  std::optional<LinkCosts> links;
  std::optional<ComputeCosts> compute;
  /// "measured 2026-01-31 by version 0.1.0: …".
  std::string provenance;
};

/// {"hardware": {…}}.
std::string hardware_text(const MeasuredHardware& hardware);

}  // namespace plait
