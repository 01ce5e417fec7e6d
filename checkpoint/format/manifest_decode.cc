#include "checkpoint/format/manifest.h"

#include <cstddef>

#include "checkpoint/format/proof.h"
#include "checkpoint/format/rules.h"
#include "checkpoint/format/wire_shape.h"
#include "checkpoint_generated.h"

namespace plait {
namespace {

template <class Table>
using Tables = flatbuffers::Vector<flatbuffers::Offset<Table>>;

Hash128 read_id(const wire::Id128& id) { return {id.low(), id.high()}; }

// Whether this build may read what another wrote; nothing else of it is looked at before.
void require_readable_format(const wire::Format& format, const std::string& path) {
  const bool is_read =
      format.major() == kFormatMajor &&
      (format.minor() <= kFormatMinor || format.min_reader_minor() <= kFormatMinor);
  const auto version = [](int major, int minor) {
    return std::to_string(major) + '.' + std::to_string(minor);
  };
  if (!is_read) {
    throw Error("format",
                "the checkpoint needs another version of the library; load it there, or have that "
                "version write this format")
        .with("path", path)
        .with("found", version(format.major(), format.minor()))
        .with("min_reader_minor", format.min_reader_minor())
        .with("supported", version(kFormatMajor, kFormatMinor));
  }
  const uint64_t unknown = format.required() & ~kKnownRequired;
  if (unknown != 0) {
    throw Error("format", "the checkpoint needs features that this version does not know")
        .with("path", path)
        .with("field", "format.required")
        .with("found", format.required())
        .with("supported", kKnownRequired);
  }
}

SavedFormat read_format(const wire::Format& format, WireReader* reader) {
  SavedFormat out;
  out.major = format.major();
  out.minor = format.minor();
  out.min_reader_minor = format.min_reader_minor();
  out.required = format.required();
  out.optional = format.optional();
  out.writer = reader->text(format.writer(), {"format", -1, "writer"});
  out.numerics = reader->text(format.numerics(), {"format", -1, "numerics"});
  out.align_log2 = format.align_log2();
  return out;
}

SavedLayout read_layout(const wire::Layout& layout, const WireReader& reader) {
  SavedLayout out;
  out.tensor = layout.tensor();
  out.pipeline = layout.pipeline();
  out.data = layout.data();
  out.interleave = layout.interleave();
  out.zero = layout.zero();
  out.sequence_parallel = layout.sequence_parallel();
  const auto& layers =
      reader.vector(layout.stage_layers(), kMostStages, {"layout", -1, "stage_layers"});
  out.stage_layers.assign(layers.begin(), layers.end());
  return out;
}

SavedProgress read_progress(const wire::Progress& progress, const WireReader& reader) {
  const auto field = [](const char* name) { return FieldPath{"progress", -1, name}; };
  SavedProgress out;
  out.step = reader.integer(progress.step(), field("step"));
  out.updates = reader.integer(progress.updates(), field("updates"));
  out.samples = reader.integer(progress.samples(), field("samples"));
  out.tokens = reader.integer(progress.tokens(), field("tokens"));
  out.skipped = reader.integer(progress.skipped(), field("skipped"));
  out.overflows = reader.integer(progress.overflows(), field("overflows"));
  out.lr = progress.lr();
  return out;
}

SavedData read_data(const wire::Data& data, WireReader* reader) {
  SavedData out;
  out.order = reader->text(data.order(), {"data", -1, "order"});
  out.order_version = data.order_version();
  out.seed = data.seed();
  const Tables<wire::Dataset>& parts =
      reader->vector(data.parts(), kMostTables, {"data", -1, "parts"});
  out.parts.reserve(parts.size());
  for (const wire::Dataset* part : parts) {
    out.parts.push_back(
        {part->fingerprint(), part->tokens(), part->drawn(), part->weight(), part->credit()});
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> read_config(const wire::Manifest& root,
                                                             WireReader* reader) {
  const Tables<wire::Pair>& pairs = reader->vector(root.config(), kMostTables, {"config"});
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(pairs.size());
  for (const wire::Pair* pair : pairs) {
    const auto i = static_cast<int64_t>(out.size());
    std::string key = reader->text(pair->key(), {"config", i, "key"});
    out.emplace_back(std::move(key), reader->text(pair->value(), {"config", i, "value"}));
  }
  return out;
}

std::vector<SavedGroup> read_groups(const wire::Manifest& root, WireReader* reader) {
  const Tables<wire::Group>& groups = reader->vector(root.groups(), kMostGroups, {"groups"});
  std::vector<SavedGroup> out;
  out.reserve(groups.size());
  for (const wire::Group* group : groups) {
    const auto i = static_cast<int64_t>(out.size());
    SavedGroup& saved = out.emplace_back();
    saved.name = reader->text(group->name(), {"groups", i, "name"});
    saved.algorithm = reader->text(group->algorithm(), {"groups", i, "algorithm"});
    saved.lr_scale = group->lr_scale();
    saved.weight_decay = group->weight_decay();
    saved.beta1 = group->beta1();
    saved.beta2 = group->beta2();
    saved.epsilon = group->epsilon();
  }
  return out;
}

SavedTensor read_tensor(const wire::Tensor& tensor, int64_t t, bool is_newer, WireReader* reader) {
  SavedTensor out;
  out.name = reader->text(tensor.name(), {"tensors", t, "name"});
  const auto& shape = reader->vector(tensor.shape(), Shape::kMaxDims, {"tensors", t, "shape"});
  std::array<int64_t, Shape::kMaxDims> sizes{};
  for (flatbuffers::uoffset_t d = 0; d < shape.size(); ++d) {
    sizes[d] = reader->integer(shape.Get(d), {"tensors", t, "shape", d});
  }
  out.shape = make_shape(static_cast<int>(shape.size()), sizes);
  const auto& states = reader->vector(tensor.states(), static_cast<int64_t>(StateKind::kExtra),
                                      {"tensors", t, "states"});
  out.states.reserve(states.size());
  for (const wire::TensorState* state : states) {
    const auto field = [&out, t](const char* name) {
      return FieldPath{"tensors", t, "states", static_cast<int64_t>(out.states.size()), name};
    };
    reader->checker().require_between(state->zero(), 0, 1, field("zero"));
    reader->checker().require(is_newer || state->reserved() == 0, "a reserved field is used",
                              field("reserved"), state->reserved(), 0);
    TensorState saved;
    saved.kind = static_cast<StateKind>(state->kind());
    saved.dtype = static_cast<DType>(state->dtype());
    saved.is_zero = state->zero() != 0;
    saved.elements = reader->integer(state->elements(), field("elements"));
    saved.digest = state->digest();
    out.states.push_back(saved);
  }
  out.group = tensor.group();
  return out;
}

std::vector<SavedFile> read_files(const wire::Manifest& root, const WireReader& reader) {
  const auto& files = reader.vector(root.files(), FormatLimits::kFiles, {"files"});
  std::vector<SavedFile> out;
  out.reserve(files.size());
  for (const wire::ShardFile* file : files) {
    const auto i = static_cast<int64_t>(out.size());
    SavedFile& saved = out.emplace_back();
    saved.ordinal = file->ordinal();
    saved.tensor = file->tensor();
    saved.pipeline = file->pipeline();
    saved.data = file->data();
    saved.plt_bytes = reader.integer(file->plt_bytes(), {"files", i, "plt_bytes"});
    saved.idx_bytes = reader.integer(file->idx_bytes(), {"files", i, "idx_bytes"});
    saved.idx_hash = read_id(file->idx_xxh3());
  }
  return out;
}

std::vector<SavedProperty> read_properties(const wire::Manifest& root, WireReader* reader) {
  const Tables<wire::Property>& properties =
      reader->vector(root.properties(), FormatLimits::kProperties, {"properties"});
  std::vector<SavedProperty> out;
  out.reserve(properties.size());
  for (const wire::Property* property : properties) {
    const auto i = static_cast<int64_t>(out.size());
    SavedProperty& saved = out.emplace_back();
    saved.name = reader->text(property->name(), {"properties", i, "name"});
    saved.type = static_cast<SavedProperty::Type>(property->type());
    switch (saved.type) {
      case SavedProperty::Type::kInteger:
        saved.integer = property->i();
        break;
      case SavedProperty::Type::kReal:
        saved.real = property->r();
        break;
      case SavedProperty::Type::kText:
        saved.text = reader->text(property->text(), {"properties", i, "text"});
        break;
    }
  }
  return out;
}

void read_scaler_and_random(const wire::Manifest& root, WireReader* reader, Manifest* out) {
  if (const wire::Scaler* scaler = root.scaler()) {
    out->scaler = {true, scaler->scale(), scaler->good_steps(), scaler->hysteresis_left()};
  }
  const wire::Rng& random = reader->part(root.rng(), {"rng"});
  out->random = {reader->text(random.algorithm(), {"rng", -1, "algorithm"}), random.key_version(),
                 random.seed()};
}

}  // namespace

Manifest decode_manifest(std::string_view data, const std::string& path, uint64_t* sequence) {
  const FieldChecker checker = FieldChecker::reader(path);
  Sealed sealed;
  const auto& root = prove<wire::Manifest>(data, wire::ManifestIdentifier(),
                                           FormatLimits::kManifestBytes, checker, &sealed);
  WireReader reader(sealed.payload, checker);
  const wire::Format& format = reader.part(root.format(), {"format"});
  require_readable_format(format, path);
  const bool is_newer = format.minor() > kFormatMinor;

  Manifest out;
  out.format = read_format(format, &reader);
  out.save_id = read_id(reader.part(root.save_id(), {"save_id"}));
  out.state_digest = read_id(reader.part(root.state_digest(), {"state_digest"}));
  out.layout = read_layout(reader.part(root.layout(), {"layout"}), reader);
  out.config = read_config(root, &reader);
  out.progress = read_progress(reader.part(root.progress(), {"progress"}), reader);
  read_scaler_and_random(root, &reader, &out);
  out.data = read_data(reader.part(root.data(), {"data"}), &reader);
  out.groups = read_groups(root, &reader);
  const Tables<wire::Tensor>& tensors =
      reader.vector(root.tensors(), FormatLimits::kTensors, {"tensors"});
  out.tensors.reserve(tensors.size());
  for (const wire::Tensor* tensor : tensors) {
    const auto t = static_cast<int64_t>(out.tensors.size());
    out.tensors.push_back(read_tensor(*tensor, t, is_newer, &reader));
  }
  out.files = read_files(root, reader);
  out.properties = read_properties(root, &reader);
  check_manifest(out, checker);
  *sequence = sealed.sequence;
  return out;
}

}  // namespace plait
