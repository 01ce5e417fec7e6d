#include "checkpoint/format/manifest.h"

#include <cstddef>

#include <flatbuffers/flatbuffers.h>

#include "checkpoint/format/rules.h"
#include "checkpoint/format/trailer.h"
#include "checkpoint_generated.h"

namespace plait {
namespace {

using WireBuilder = flatbuffers::FlatBufferBuilder;
template <class Table>
using Offsets = std::vector<flatbuffers::Offset<Table>>;

wire::Id128 wire_id(const Hash128& hash) { return {hash.low, hash.high}; }

flatbuffers::Offset<wire::Format> build_format(WireBuilder& builder, const SavedFormat& format) {
  const auto writer = builder.CreateString(format.writer);
  const auto numerics = builder.CreateString(format.numerics);
  return wire::CreateFormat(
      builder, static_cast<uint16_t>(format.major), static_cast<uint16_t>(format.minor),
      static_cast<uint16_t>(format.min_reader_minor), format.required, format.optional, writer,
      numerics, static_cast<uint8_t>(format.align_log2));
}

flatbuffers::Offset<wire::Layout> build_layout(WireBuilder& builder, const SavedLayout& layout) {
  const std::vector<uint32_t> layers(layout.stage_layers.begin(), layout.stage_layers.end());
  const auto stage_layers = builder.CreateVector(layers);
  return wire::CreateLayout(
      builder, static_cast<uint32_t>(layout.tensor), static_cast<uint32_t>(layout.pipeline),
      static_cast<uint32_t>(layout.data), static_cast<uint32_t>(layout.interleave),
      static_cast<uint8_t>(layout.zero), layout.sequence_parallel, stage_layers);
}

flatbuffers::Offset<wire::Progress> build_progress(WireBuilder& builder,
                                                   const SavedProgress& progress) {
  return wire::CreateProgress(
      builder, static_cast<uint64_t>(progress.step), static_cast<uint64_t>(progress.updates),
      static_cast<uint64_t>(progress.samples), static_cast<uint64_t>(progress.tokens),
      static_cast<uint64_t>(progress.skipped), static_cast<uint64_t>(progress.overflows),
      progress.lr);
}

flatbuffers::Offset<wire::Rng> build_random(WireBuilder& builder, const SavedRandom& random) {
  const auto algorithm = builder.CreateString(random.algorithm);
  return wire::CreateRng(builder, algorithm, static_cast<uint16_t>(random.key_version),
                         random.seed);
}

flatbuffers::Offset<wire::Data> build_data(WireBuilder& builder, const SavedData& data) {
  Offsets<wire::Dataset> parts;
  for (const SavedDataset& part : data.parts) {
    parts.push_back(wire::CreateDataset(builder, part.fingerprint, part.tokens, part.drawn,
                                        part.weight, part.credit));
  }
  const auto all = builder.CreateVector(parts);
  const auto order = builder.CreateString(data.order);
  return wire::CreateData(builder, order, static_cast<uint16_t>(data.order_version), data.seed,
                          all);
}

Offsets<wire::Pair> build_config(WireBuilder& builder, const Manifest& manifest) {
  Offsets<wire::Pair> pairs;
  for (const auto& [key, value] : manifest.config) {
    const auto key_text = builder.CreateString(key);
    const auto value_text = builder.CreateString(value);
    pairs.push_back(wire::CreatePair(builder, key_text, value_text));
  }
  return pairs;
}

Offsets<wire::Group> build_groups(WireBuilder& builder, const std::vector<SavedGroup>& groups) {
  Offsets<wire::Group> all;
  for (const SavedGroup& group : groups) {
    const auto name = builder.CreateString(group.name);
    const auto algorithm = builder.CreateString(group.algorithm);
    all.push_back(wire::CreateGroup(builder, name, algorithm, group.lr_scale, group.weight_decay,
                                    group.beta1, group.beta2, group.epsilon));
  }
  return all;
}

flatbuffers::Offset<wire::Tensor> build_tensor(WireBuilder& builder, const SavedTensor& tensor) {
  std::vector<uint64_t> sizes;
  for (int d = 0; d < tensor.shape.dims(); ++d) {
    sizes.push_back(static_cast<uint64_t>(tensor.shape[d]));
  }
  std::vector<wire::TensorState> states;
  for (const TensorState& state : tensor.states) {
    states.emplace_back(static_cast<uint16_t>(state.kind), static_cast<uint8_t>(state.dtype),
                        state.is_zero ? 1 : 0, 0, static_cast<uint64_t>(state.elements),
                        state.digest);
  }
  const auto name = builder.CreateString(tensor.name);
  const auto shape = builder.CreateVector(sizes);
  const auto all = builder.CreateVectorOfStructs(states);
  return wire::CreateTensor(builder, name, shape, all, static_cast<uint16_t>(tensor.group));
}

std::vector<wire::ShardFile> build_files(const std::vector<SavedFile>& files) {
  std::vector<wire::ShardFile> all;
  for (const SavedFile& file : files) {
    all.emplace_back(file.ordinal, file.tensor, file.pipeline, file.data,
                     static_cast<uint64_t>(file.plt_bytes), static_cast<uint64_t>(file.idx_bytes),
                     wire_id(file.idx_hash));
  }
  return all;
}

Offsets<wire::Property> build_properties(WireBuilder& builder,
                                         const std::vector<SavedProperty>& properties) {
  using Type = SavedProperty::Type;
  Offsets<wire::Property> all;
  for (const SavedProperty& property : properties) {
    const Type type = property.type;
    const auto name = builder.CreateString(property.name);
    flatbuffers::Offset<flatbuffers::String> text;
    if (type == Type::kText) text = builder.CreateString(property.text);
    all.push_back(wire::CreateProperty(builder, name, static_cast<wire::ValueType>(type),
                                       type == Type::kInteger ? property.integer : 0,
                                       type == Type::kReal ? property.real : 0, text));
  }
  return all;
}

}  // namespace

std::string encode_manifest(const Manifest& manifest, uint64_t sequence) {
  const FieldChecker checker = FieldChecker::writer("MANIFEST");
  check_manifest(manifest, checker);
  WireBuilder builder(size_t{1} << 16);
  // No field is left out for being 0, so that no reader depends on a default.
  builder.ForceDefaults(true);
  Offsets<wire::Tensor> tensors;
  for (const SavedTensor& tensor : manifest.tensors) {
    tensors.push_back(build_tensor(builder, tensor));
  }
  const auto format = build_format(builder, manifest.format);
  const auto layout = build_layout(builder, manifest.layout);
  const auto config = builder.CreateVector(build_config(builder, manifest));
  const auto progress = build_progress(builder, manifest.progress);
  flatbuffers::Offset<wire::Scaler> scaler;
  if (manifest.scaler.is_present) {
    scaler = wire::CreateScaler(builder, manifest.scaler.scale, manifest.scaler.good_steps,
                                manifest.scaler.hysteresis_left);
  }
  const auto random = build_random(builder, manifest.random);
  const auto data = build_data(builder, manifest.data);
  const auto groups = builder.CreateVector(build_groups(builder, manifest.groups));
  const auto all_tensors = builder.CreateVector(tensors);
  const auto files = builder.CreateVectorOfStructs(build_files(manifest.files));
  const auto properties = builder.CreateVector(build_properties(builder, manifest.properties));
  const wire::Id128 save_id = wire_id(manifest.save_id);
  const wire::Id128 state_digest = wire_id(manifest.state_digest);
  builder.Finish(
      wire::CreateManifest(builder, format, &save_id, &state_digest, layout, config, progress,
                           scaler, random, data, groups, all_tensors, files, properties),
      wire::ManifestIdentifier());
  checker.require_limit(static_cast<int64_t>(builder.GetSize()) + kTrailerBytes,
                        FormatLimits::kManifestBytes, {"file bytes"});
  std::string bytes(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  append_trailer(&bytes, sequence);
  return bytes;
}

}  // namespace plait
