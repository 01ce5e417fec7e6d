#include "engine/trainer/run_state.h"

#include <algorithm>

#include "engine/model/logical_tensors.h"
#include "engine/trainer/layer_split.h"
#include "engine/trainer/state_map.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int kKernelRevision = 1;  // grows when a kernel's result changes
constexpr int kKeyVersion = 1;      // of the names of random streams
constexpr int kOrderVersion = 1;
constexpr uint64_t kOneSample = uint64_t{1} << 32;  // in units of credit

SavedLayout describe_layout(const Settings& settings) {
  const LayoutConfig& layout = settings.layout;
  SavedLayout saved;
  saved.tensor = layout.tensor;
  saved.pipeline = layout.pipeline;
  saved.data = layout.data;
  saved.interleave = layout.interleave;
  saved.zero = layout.zero;
  saved.sequence_parallel = layout.sequence_parallel;
  for (const auto& [first, count] : split_layers(settings.model, layout)) {
    saved.stage_layers.push_back(count);
  }
  return saved;
}

std::vector<std::pair<std::string, std::string>> describe_config(const Config& config) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const KeyInfo& info : all_keys()) {
    const std::string_view name = info.name;
    const bool is_left_out =
        name.starts_with("run.") || (info.flags & kKeyLocal) != 0 || info.has(kTraitSecret);
    if (is_left_out) continue;
    std::string value = config.get(name);
    if (!value.empty()) pairs.emplace_back(name, std::move(value));
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

std::vector<SavedGroup> describe_groups(const OptimizerConfig& optimizer) {
  SavedGroup group;
  group.algorithm = "adamw";
  group.beta1 = optimizer.beta1;
  group.beta2 = optimizer.beta2;
  group.epsilon = optimizer.epsilon;
  std::vector<SavedGroup> groups(2, group);
  groups[kDecayGroup].name = "decay";
  groups[kDecayGroup].weight_decay = optimizer.weight_decay;
  groups[kNoDecayGroup].name = "no_decay";
  return groups;
}

std::vector<SavedTensor> describe_tensors(const Settings& settings) {
  std::vector<SavedTensor> tensors = sorted_tensors(logical_tensors(settings.model)).tensors;
  for (SavedTensor& tensor : tensors) {
    tensor.group = tensor.shape.dims() >= 2 ? kDecayGroup : kNoDecayGroup;
    const auto add = [&](StateKind kind) {
      TensorState state;
      state.kind = kind;
      state.elements = tensor.shape.elements();
      tensor.states.push_back(state);
    };
    add(weight_kind(settings.precision.compute));
    if (settings.checkpoint.weights_only) continue;
    add(StateKind::kMoment1);
    add(StateKind::kMoment2);
  }
  return tensors;
}

}  // namespace

SavedData describe_data(uint64_t seed, int64_t samples, const Dataset* train) {
  SavedData data;
  data.order_version = kOrderVersion;
  if (train == nullptr) {
    data.order = "host";
    data.seed = seed;
    return data;
  }
  data.order = "feistel-tijdeman";
  data.seed = train->options().seed;
  const BlendState state = train->state_at(samples);
  for (int64_t i = 0; i < train->sets(); ++i) {
    SavedDataset part;
    part.fingerprint = train->set(i).fingerprint();
    part.tokens = static_cast<uint64_t>(train->set(i).tokens());
    part.drawn = static_cast<uint64_t>(state.drawn[static_cast<size_t>(i)]);
    part.weight = static_cast<uint64_t>(train->weight(i));
    // Both products may pass 64 bits; their difference is small, so modulo 2^64 it is exact.
    part.credit = static_cast<int64_t>(part.weight * static_cast<uint64_t>(state.ordinal) -
                                       kOneSample * part.drawn);
    data.parts.push_back(part);
  }
  return data;
}

void seek_data(const Dataset& dataset, const SavedData& file, int64_t samples) {
  BlendState state;
  for (const SavedDataset& part : file.parts) {
    state.drawn.push_back(static_cast<int64_t>(part.drawn));
    state.ordinal += state.drawn.back();
  }
  try {
    if (state.ordinal != samples) throw Error("argument", "another position");
    dataset.seek(state);
  } catch (const Error&) {
    throw Error("invalid_field", "no run of this blend has drawn these counts")
        .with("field", "data.parts.drawn")
        .with("value", state.ordinal)
        .with("limit", samples);
  }
}

std::string numerics_text(const Settings& settings, const std::string& isa) {
  constexpr const char* kMatmul[] = {"native", "bf16x3", "tf32"};
  constexpr const char* kReduction[] = {"ordered", "canonical"};
  const PrecisionConfig& precision = settings.precision;
  std::string text;
  const auto add = [&](const char* key, const std::string& value) {
    text += std::string(key) + "=" + value + "\n";
  };
  if (precision.reduction == ReductionChoice::kCanonical) {
    add("canonical_data", std::to_string(precision.canonical_data));
    add("canonical_tensor", std::to_string(precision.canonical_tensor));
  }
  add("compute", dtype_name(precision.compute));
  add("device", settings.device.device);
  add("flush_to_zero", precision.flush_to_zero ? "true" : "false");
  add("isa", isa);
  add("kernels", std::to_string(kKernelRevision));
  add("matmul", kMatmul[static_cast<size_t>(precision.matmul)]);
  add("reduction", kReduction[static_cast<size_t>(precision.reduction)]);
  add("residual", dtype_name(precision.residual));
  add("rounding", "nearest_even");
  return text;
}

Manifest describe_run(const Config& config, const Settings& settings, const RunPosition& position,
                      const Dataset* train, std::string numerics) {
  Manifest manifest;
  manifest.format.writer = std::string("plait ") + PLAIT_VERSION;
  manifest.format.numerics = std::move(numerics);
  manifest.layout = describe_layout(settings);
  manifest.config = describe_config(config);
  manifest.progress = position.progress;
  manifest.scaler = position.scaler;
  manifest.random = {"philox4x32-10", kKeyVersion, settings.seed};
  manifest.data = describe_data(settings.seed, position.progress.samples, train);
  manifest.groups = describe_groups(settings.optimizer);
  manifest.tensors = describe_tensors(settings);
  manifest.properties = position.properties;
  return manifest;
}

}  // namespace plait
