#include "engine/trainer/checkpoint_source.h"

#include <algorithm>
#include <utility>

#include "checkpoint/hf_directory.h"
#include "checkpoint/store/root.h"
#include "engine/trainer/checkpoint_report.h"
#include "engine/trainer/model_facts.h"
#include "engine/trainer/run_state.h"
#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr std::string_view kHfConfig = "hf.config";

/// A step of the native format.
class StepSource final : public CheckpointSource {
 public:
  explicit StepSource(OpenedStep opened) : opened_(std::move(opened)) {
    const Manifest& file = opened_.reader->manifest();
    for (size_t i = 0; i < file.tensors.size(); ++i) {
      for (const TensorState& state : file.tensors[i].states) {
        entries_.push_back({file.tensors[i].name, state.kind, state.dtype, file.tensors[i].shape,
                            state.digest, static_cast<int64_t>(i)});
      }
    }
  }

  const std::vector<SavedProperty>& properties() const override { return manifest()->properties; }

  ModelFacts facts() const override {
    try {
      return model_facts(make_model(saved_config(*manifest(), Config())));
    } catch (const Error& error) {
      throw Error("invalid_field", "the step does not say which model it holds")
          .with("path", opened_.reader->directory())
          .with("field", "config")
          .with("reason", error.message());
    }
  }

  std::string hf_config() const override {
    for (const SavedProperty& property : properties()) {
      if (property.name == kHfConfig) return property.text;
    }
    return "";
  }

  std::string report() const override { return step_report(*opened_.reader, opened_.skipped); }
  const Manifest* manifest() const override { return &opened_.reader->manifest(); }
  int64_t data_bytes() const override { return opened_.reader->data_bytes(); }

  void read_weights(std::string_view name, float* values) const override {
    const SourceEntry* entry = find(name, StateKind::kMaster);
    if (entry == nullptr) entry = find(name, StateKind::kParam);
    if (entry == nullptr) {
      throw Error("invalid_field", "the step has no weights under this name")
          .with("path", opened_.reader->directory())
          .with("tensor", name);
    }
    ReadTarget target;
    target.tensor = entry->tensor;
    target.kind = entry->kind;
    target.box = Box::whole(entry->shape);
    target.data = values;
    opened_.reader->read({&target, 1});
    if (target.digest == entry->digest) return;
    throw Error("digest_mismatch", "the values are not those that were saved")
        .with("path", opened_.reader->directory())
        .with("tensor", name)
        .with("kind", state_kind_name(entry->kind));
  }

  void read_entry(const SourceEntry& entry, void* data) const override {
    opened_.reader->read_whole(entry.tensor, entry.kind, data);
  }
  std::unique_ptr<FileMapping> map_entry(const SourceEntry& entry) const override {
    return opened_.reader->map_whole(entry.tensor, entry.kind);
  }
  void read(std::span<ReadTarget> targets, const std::atomic<bool>* is_cancelled) const override {
    opened_.reader->read(targets, nullptr, is_cancelled);
  }
  std::vector<Damage> verify(bool is_full, std::atomic<int64_t>* bytes_done,
                             const std::atomic<bool>* is_cancelled) const override {
    return opened_.reader->verify(is_full, bytes_done, is_cancelled);
  }

 private:
  OpenedStep opened_;
};

/// What the ABI has no number for is read as float32.
DType hugging_face_dtype(const char* type) {
  const std::string_view name(type);
  if (name == "BF16") return DType::kBFloat16;
  return name == "F16" ? DType::kFloat16 : DType::kFloat32;
}

class HuggingFaceSource final : public CheckpointSource {
 public:
  HuggingFaceSource(std::string path, HfDirectory directory)
      : path_(std::move(path)), directory_(std::move(directory)) {
    for (const CheckpointTensor& tensor : directory_.tensors()) {
      SourceEntry entry;
      entry.name = tensor.name;
      entry.dtype = hugging_face_dtype(directory_.type_name(tensor.name));
      entry.shape = tensor.shape;
      entries_.push_back(std::move(entry));
    }
    std::sort(entries_.begin(), entries_.end(),
              [](const SourceEntry& a, const SourceEntry& b) { return a.name < b.name; });
    for (size_t i = 0; i < entries_.size(); ++i) entries_[i].tensor = static_cast<int64_t>(i);
  }

  const std::vector<SavedProperty>& properties() const override { return no_properties_; }
  ModelFacts facts() const override { return directory_.facts(); }
  std::string hf_config() const override { return directory_.config().text; }
  std::string report() const override { return hugging_face_report(path_, directory_); }
  const Manifest* manifest() const override { return nullptr; }
  int64_t data_bytes() const override { return directory_.data_bytes(); }

  void read_weights(std::string_view name, float* values) const override {
    directory_.read(name, Box::whole(directory_.find(name)->shape), values);
  }

  /// The values came from the stored type: back to it they are exact.
  void read_entry(const SourceEntry& entry, void* data) const override {
    std::vector<float> values(static_cast<size_t>(entry.shape.elements()));
    read_weights(entry.name, values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      if (entry.dtype == DType::kBFloat16) {
        static_cast<BFloat16*>(data)[i] = to_bfloat16(values[i]);
      } else if (entry.dtype == DType::kFloat16) {
        static_cast<Float16*>(data)[i] = to_float16(values[i]);
      } else {
        static_cast<float*>(data)[i] = values[i];
      }
    }
  }

  void read(std::span<ReadTarget> targets, const std::atomic<bool>* is_cancelled) const override {
    for (ReadTarget& target : targets) {
      if (is_cancelled != nullptr && is_cancelled->load()) {
        throw Error("cancelled", "the operation was cancelled").with("path", path_);
      }
      directory_.read(entries_[static_cast<size_t>(target.tensor)].name, target.box,
                      static_cast<float*>(target.data));
    }
  }

  std::vector<Damage> verify(bool, std::atomic<int64_t>* bytes_done,
                             const std::atomic<bool>* is_cancelled) const override {
    std::vector<float> values;
    for (const SourceEntry& entry : entries_) {
      values.resize(static_cast<size_t>(entry.shape.elements()));
      ReadTarget target;
      target.tensor = entry.tensor;
      target.box = Box::whole(entry.shape);
      target.data = values.data();
      read({&target, 1}, is_cancelled);
      if (bytes_done != nullptr) {
        bytes_done->fetch_add(entry.shape.elements() * dtype_size(entry.dtype));
      }
    }
    return {};
  }

 private:
  std::string path_;
  HfDirectory directory_;
  std::vector<SavedProperty> no_properties_;
};

int64_t directory_bytes(Files& files, const std::string& directory) {
  int64_t bytes = 0;
  for (const std::string& name : files.list(directory)) {
    bytes += files.stat(join_path(directory, name)).bytes;
  }
  return bytes;
}

}  // namespace

const SourceEntry* CheckpointSource::find(std::string_view name, StateKind kind) const {
  const auto is_before = [](const SourceEntry& entry, const std::pair<std::string_view, int>& key) {
    return std::pair<std::string_view, int>(entry.name, static_cast<int>(entry.kind)) < key;
  };
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(),
                       std::pair<std::string_view, int>(name, static_cast<int>(kind)), is_before);
  const bool is_found = found != entries_.end() && found->name == name && found->kind == kind;
  return is_found ? &*found : nullptr;
}

std::unique_ptr<CheckpointSource> open_checkpoint_source(Files& files, const std::string& path) {
  if (files.stat(path).kind != FileInfo::Kind::kDirectory) {
    throw Error("no_checkpoint", "a checkpoint is a directory").with("path", path);
  }
  if (is_native_checkpoint(files, path)) {
    return std::make_unique<StepSource>(open_checkpoint(files, path, true));
  }
  if (!files.exists(join_path(path, "config.json"))) {
    throw Error("no_checkpoint", "the directory holds no checkpoint").with("path", path);
  }
  return std::make_unique<HuggingFaceSource>(path, HfDirectory::open(files, path));
}

Config saved_config(const Manifest& manifest, const Config& layout) {
  Config config;
  for (const auto& [key, value] : manifest.config) {
    // A newer minor may have keys that this build does not know.
    const bool is_taken = find_key(key) != nullptr && !key.starts_with("layout.");
    if (is_taken) config.set(key, std::string_view(value));
  }
  for (const KeyInfo& info : all_keys()) {
    const std::string_view name = info.name;
    const bool is_of_layout = name.starts_with("layout.") || name == "precision.reduction" ||
                              name.starts_with("precision.canonical_");
    if (is_of_layout && layout.is_set(name)) {
      config.set(name, std::string_view(layout.get(name)));
    }
  }
  return config;
}

std::string list_checkpoints(Files& files, const std::string& root) {
  const RootListing listing = list_root(files, root);
  JsonArray steps, bad;
  for (const StepEntry& entry : listing.steps) {
    steps.add(JsonObject()
                  .field("name", entry.name)
                  .field("step", entry.step)
                  .field("sequence", entry.sequence)
                  .field("bytes", directory_bytes(files, join_path(root, entry.name)))
                  .text());
  }
  for (const BadStep& entry : listing.bad) {
    bad.add(JsonObject().field("name", entry.name).field("reason", entry.reason).text());
  }
  return JsonObject().field("root", root).raw("steps", steps.text()).raw("bad", bad.text()).text();
}

}  // namespace plait
