#include "engine/trainer/convert_step.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "checkpoint/format/digest.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/store/root.h"
#include "checkpoint/store/shard_writer.h"
#include "engine/config/checks.h"
#include "engine/trainer/layout_map.h"
#include "engine/trainer/run_state.h"
#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

/// What the new step will say, and the settings of the run that could have saved it.
struct ConvertPlan {
  Settings settings;
  Manifest manifest;  ///< with digests, without files
};

Settings proved_settings(const Config& config) {
  check_model(config);
  check_layout(config);
  Settings settings = make_settings(config);
  if (settings.layout.auto_keys.empty()) return settings;
  throw Error("argument", "a conversion needs a number for every degree of the layout")
      .with("key", settings.layout.auto_keys.front())
      .with("value", "auto");
}

ConvertPlan plan_step(const Manifest& file, const Config& layout) {
  const Config config = saved_config(file, layout);
  ConvertPlan plan{proved_settings(config), {}};
  const RunPosition position{file.progress, file.scaler, file.properties};
  plan.manifest = describe_run(config, plan.settings, position, nullptr, file.format.numerics);
  plan.manifest.random = file.random;
  plan.manifest.data = file.data;
  plan.manifest.groups = file.groups;
  plan.manifest.tensors = file.tensors;
  return plan;
}

/// Digests of values that no file vouches for.
void digest_tensors(const CheckpointSource& source, Manifest* manifest,
                    const AsyncOperation& operation) {
  std::vector<float> values;
  for (SavedTensor& tensor : manifest->tensors) {
    if (operation.cancel_flag().load()) {
      throw Error("cancelled", "the conversion was cancelled").with("tensor", tensor.name);
    }
    values.resize(static_cast<size_t>(tensor.shape.elements()));
    source.read_weights(tensor.name, values.data());
    for (TensorState& state : tensor.states) {
      state.digest =
          digest_box(values.data(), DType::kFloat32, Box::whole(tensor.shape), tensor.shape);
    }
  }
}

ConvertPlan plan_import(const CheckpointSource& source, Config config,
                        const AsyncOperation& operation) {
  Error contradiction("config_mismatch",
                      "the configuration contradicts the model that is imported");
  bool is_contradicted = false;
  for (const auto& [key, value] : model_keys(source.facts())) {
    const std::string want = config.is_set(key) ? config.get(key) : "";
    config.set(key, std::string_view(value));
    if (want.empty() || want == config.get(key)) continue;
    is_contradicted = true;
    Error longer = std::move(contradiction).with(key, want).with(key + ".loaded", config.get(key));
    contradiction = std::move(longer);
  }
  if (is_contradicted) throw contradiction;
  config.set("checkpoint.weights_only", "true");
  if (!config.is_set("train.global_batch")) {
    int64_t parts = config.get_integer("layout.data");
    if (config.get("precision.reduction") == "canonical") {
      parts = std::max(parts, config.get_integer("precision.canonical_data"));
    }
    const int64_t rows =
        config.get_integer("layout.micro_batch") * parts * config.get_integer("layout.pipeline");
    config.set("train.global_batch", std::to_string(rows));
  }
  ConvertPlan plan{proved_settings(config), {}};
  RunPosition position;
  SavedProperty hf_config;
  hf_config.name = "hf.config";
  hf_config.type = SavedProperty::Type::kText;
  hf_config.text = source.hf_config();
  position.properties.push_back(std::move(hf_config));
  plan.manifest = describe_run(config, plan.settings, position, nullptr,
                               numerics_text(plan.settings, plan.settings.device.isa));
  digest_tensors(source, &plan.manifest, operation);
  return plan;
}

/// Kinds of state, the same of every tensor.
std::vector<StateKind> kinds_of(const Manifest& manifest) {
  std::vector<StateKind> kinds;
  for (const SavedTensor& tensor : manifest.tensors) {
    std::vector<StateKind> own;
    for (const TensorState& state : tensor.states) own.push_back(state.kind);
    if (kinds.empty()) kinds = own;
    if (own == kinds && !own.empty()) continue;
    throw Error("invalid_field", "tensors of the step hold different kinds of state")
        .with("tensor", tensor.name);
  }
  return kinds;
}

/// The tensors of the file are those of the model that its configuration describes.
void check_tensors(const Manifest& manifest, const std::vector<SavedTensor>& model) {
  const std::vector<SavedTensor>& file = manifest.tensors;
  for (size_t i = 0; i < file.size() || i < model.size(); ++i) {
    const bool is_same = i < file.size() && i < model.size() && file[i].name == model[i].name &&
                         file[i].shape == model[i].shape;
    if (is_same) continue;
    throw Error("invalid_field", "the step's tensors are not those of its configuration")
        .with("tensor", i < file.size() ? file[i].name : model[i].name);
  }
}

int64_t state_bytes(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const SavedTensor& tensor : manifest.tensors) {
    for (const TensorState& state : tensor.states) {
      bytes += state.elements * dtype_size(state.dtype);
    }
  }
  return bytes;
}

/// Writes the ranks' shards one after the other.
class StepConversion {
 public:
  StepConversion(Files& files, const CheckpointSource& source, const ConvertPlan& plan,
                 AsyncOperation& operation)
      : files_(files),
        source_(source),
        manifest_(plan.manifest),
        map_(plan.settings),
        kinds_(kinds_of(manifest_)),
        operation_(operation) {
    check_tensors(manifest_, map_.tensors().tensors);
    for (const SavedTensor& tensor : manifest_.tensors) shapes_.push_back(tensor.shape);
    seal_identity(&manifest_);
  }

  /// The manifest with its files, of shards that are durable in `directory`.
  Manifest write(const std::string& directory) {
    for (int64_t rank = 0; rank < map_.world(); ++rank) write_rank(directory, rank);
    Manifest whole = manifest_;
    cover(&whole, records_);
    for (size_t i = 0; i < whole.tensors.size(); ++i) {
      for (size_t j = 0; j < whole.tensors[i].states.size(); ++j) {
        const TensorState& state = whole.tensors[i].states[j];
        if (state.digest == manifest_.tensors[i].states[j].digest) continue;
        throw Error("digest_mismatch", "the values are not those that were saved")
            .with("tensor", whole.tensors[i].name)
            .with("kind", state_kind_name(state.kind));
      }
    }
    return whole;
  }

 private:
  void write_rank(const std::string& directory, int64_t rank) {
    std::vector<std::vector<std::byte>> buffers;
    std::vector<ReadTarget> targets;
    std::vector<SliceSource> slices;
    for (const StatePiece& piece : map_.pieces(rank, kinds_)) {
      if (!piece.is_owned) continue;
      const DType dtype = manifest_.state(piece.tensor, piece.kind)->dtype;
      buffers.emplace_back(static_cast<size_t>(piece.box.elements() * dtype_size(dtype)));
      ReadTarget target;
      target.tensor = piece.tensor;
      target.kind = piece.kind;
      target.box = piece.box;
      target.dtype = dtype;
      target.data = buffers.back().data();
      targets.push_back(target);
      slices.push_back({static_cast<uint32_t>(piece.tensor), piece.kind, dtype, piece.box,
                        buffers.back().data()});
    }
    source_.read(targets, &operation_.cancel_flag());
    ShardWriter writer(files_, directory, map_.place(rank), manifest_.progress.step, shapes_,
                       std::move(slices));
    if (writer.is_empty()) return;
    writer.write_slices(&operation_.done_bytes(), &operation_.cancel_flag());
    const SavedFile file = writer.finish(manifest_.save_id);
    records_.push_back({file, writer.slices()});
  }

  Files& files_;
  const CheckpointSource& source_;
  Manifest manifest_;
  LayoutMap map_;
  std::vector<StateKind> kinds_;
  std::vector<Shape> shapes_;
  AsyncOperation& operation_;
  std::vector<ShardRecord> records_;
};

std::string conversion_info(Env& env, const Manifest& manifest) {
  constexpr int64_t kMillion = 1'000'000;
  return JsonObject()
             .field("command", "convert")
             .field("library", manifest.format.writer)
             .field("unix_ms", env.clock.wall_ns() / kMillion)
             .text() +
         "\n";
}

}  // namespace

std::string convert_checkpoint(Env& env, Log* log, const CheckpointSource& source,
                               const Config& layout, const std::string& root,
                               AsyncOperation& operation) {
  const ConvertPlan plan = source.manifest() != nullptr ? plan_step(*source.manifest(), layout)
                                                        : plan_import(source, layout, operation);
  const int64_t bytes = state_bytes(plan.manifest), step = plan.manifest.progress.step;
  const CheckpointConfig keys = make_checkpoint(layout);
  CommitOptions options;
  options.may_replace = keys.on_existing == ExistingChoice::kReplace;
  options.is_manifest_last = keys.commit == CommitChoice::kManifestLast;
  operation.set_progress(0, bytes);
  StepConversion conversion(env.files, source, plan, operation);
  const auto writer = RootWriter::open(env, root, "convert", log, 0);
  const std::string temporary = writer->begin(step, bytes, options);
  std::string path;
  size_t shards = 0;
  try {
    const Manifest manifest = conversion.write(temporary);
    shards = manifest.files.size();
    path = writer->commit(temporary, manifest, conversion_info(env, manifest), options);
  } catch (...) {
    writer->discard(temporary);
    throw;
  }
  writer->point_latest(step);
  return JsonObject()
      .field("path", path)
      .field("step", step)
      .field("weight_files", shards)
      .field("tensors", plan.manifest.tensors.size())
      .field("bytes", bytes)
      .text();
}

}  // namespace plait
