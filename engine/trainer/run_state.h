// What a run is beside its tensors, as a checkpoint holds it: progress, loss scale, randomness, data
// position, configuration, numerics, properties; and what of it a resume may change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "engine/config/config.h"
#include "engine/config/settings.h"
#include "engine/data/sampler.h"

namespace plait {

/// Counters and positions at a step boundary: equal on every process.
struct RunPosition {
  SavedProgress progress;
  SavedScaler scaler;
  std::vector<SavedProperty> properties;  ///< by name
};

/// A manifest without tensors' digests, files and identity: everything that all processes know
/// alike. `train` is the attached data set, or null where the host feeds batches. `numerics`: see
/// `numerics_text`.
Manifest describe_run(const Config& config, const Settings& settings, const RunPosition& position,
                      const Dataset* train, std::string numerics);

/// Canonical `key=value` lines: device, instruction set, dtypes, reduction, rounding and flush
/// flags, revision of the kernels.
std::string numerics_text(const Settings& settings, const std::string& isa);

/// What a load does with a manifest of another run.
struct ResumeDecision {
  std::vector<std::string> warnings;  ///< numerics that changed, and the like
  bool is_weights_only = false;       ///< moments, counters and position start anew
};
/// Compares model, tensors, configuration (by each key's resume mark: same, ask unless named in
/// checkpoint.allow_change, free), data and numerics. Throws `config_mismatch` with all differences
/// (key, value of the file, value of the run), `dataset_changed`, `numerics_changed`,
/// `weights_only`. `expected`: what describe_run says of this run.
ResumeDecision compare_runs(const Manifest& file, const Manifest& expected, const Config& config,
                            const Settings& settings);

}  // namespace plait
