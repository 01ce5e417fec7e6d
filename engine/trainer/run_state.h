// What a run is beside its tensors, as a checkpoint holds it: progress, loss scale, randomness,
// data position, configuration, numerics, properties; and what of it a resume may change.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

/// Order, parts and position of training data, as describe_run says them.
SavedData describe_data(uint64_t seed, int64_t samples, const Dataset* train);

/// Brings the blend of `dataset` to the position of a file without a replay. `invalid_field` when
/// no run of its weights has drawn these counts.
void seek_data(const Dataset& dataset, const SavedData& file, int64_t samples);

/// Canonical `key=value` lines: device, instruction set, dtypes, reduction, rounding and flush
/// flags, revision of the kernels.
std::string numerics_text(const Settings& settings, const std::string& isa);

/// Weight decay applies to matrices and embeddings alone: the two groups of a manifest.
inline constexpr int kDecayGroup = 0, kNoDecayGroup = 1;

/// The state of the file that serves a run which keeps `kind`: weights come from the master, or
/// else from the parameter, whose type is widened. Null: the file has none.
const TensorState* stored_state(const Manifest& file, int64_t tensor, StateKind kind);

/// Whether checkpoint.allow_change names the key or a group that it belongs to.
bool may_change(const CheckpointConfig& checkpoint, std::string_view key);

/// Compares order and parts of training data, positions left out. `dataset_changed` with all that
/// differs unless checkpoint.allow_change holds data; false: it differs and may. `paths`: of the
/// run's parts, or none.
bool compare_data(const SavedData& file, const SavedData& run, std::span<const std::string> paths,
                  const CheckpointConfig& checkpoint);

/// What a load does with a manifest of another run.
struct ResumeDecision {
  std::vector<std::string> warnings;  ///< numerics that changed, and the like
  bool is_weights_only = false;       ///< moments, counters and position start anew
};
/// Compares model, tensors, configuration (by each key's resume mark: same, ask unless named in
/// checkpoint.allow_change, free), data and numerics. Throws `config_mismatch` with all differences
/// (key, value of the file, value of the run), `dataset_changed`, `numerics_changed`,
/// `weights_only`. `expected`: what describe_run says of this run; without data where no dataset is
/// attached, whose comparison is then left to its attachment. A load of weights alone compares the
/// model and nothing else.
ResumeDecision compare_runs(const Manifest& file, const Manifest& expected, const Config& config,
                            const Settings& settings);

}  // namespace plait
