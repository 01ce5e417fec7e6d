#include "checkpoint/format/rules.h"

#include <cmath>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr int64_t kMostInU16 = 0xFFFF, kMostInU32 = 0xFFFFFFFF;
constexpr int kMostZero = 3;

void check_format(const SavedFormat& format, const FieldChecker& checker) {
  const auto field = [](const char* name) { return FieldPath{"format", -1, name}; };
  checker.require_between(format.major, 0, kMostInU16, field("major"));
  checker.require_between(format.minor, 0, kMostInU16, field("minor"));
  checker.require_between(format.min_reader_minor, 0, format.minor, field("min_reader_minor"));
  checker.require_utf8(format.writer, field("writer"));
  checker.require_utf8(format.numerics, field("numerics"));
  checker.require_between(format.align_log2, kLeastAlignLog2, kMostAlignLog2, field("align_log2"));
}

void check_layout(const SavedLayout& layout, const FieldChecker& checker) {
  const auto field = [](const char* name) { return FieldPath{"layout", -1, name}; };
  checker.require_between(layout.tensor, 1, kMostInU32, field("tensor"));
  checker.require_between(layout.pipeline, 1, kMostInU32, field("pipeline"));
  checker.require_between(layout.data, 1, kMostInU32, field("data"));
  checker.require_between(layout.interleave, 1, kMostInU32, field("interleave"));
  checker.require_between(layout.zero, 0, kMostZero, field("zero"));
  int64_t ranks = 0;
  const bool fits = !__builtin_mul_overflow(layout.tensor, layout.pipeline, &ranks) &&
                    !__builtin_mul_overflow(ranks, layout.data, &ranks);
  checker.require(fits, "tensor × pipeline × data overflows", {"layout"}, layout.data, INT64_MAX);
  checker.require_limit(static_cast<int64_t>(layout.stage_layers.size()), kMostStages,
                        field("stage_layers"));
  // Each factor has 32 bits at most.
  const uint64_t stages =
      static_cast<uint64_t>(layout.pipeline) * static_cast<uint64_t>(layout.interleave);
  checker.require(layout.stage_layers.size() <= stages, "more than the virtual stages",
                  field("stage_layers"), layout.stage_layers.size(), stages);
  for (size_t i = 0; i < layout.stage_layers.size(); ++i) {
    checker.require_between(layout.stage_layers[i], 0, kMostInU32,
                            {"layout", -1, "stage_layers", static_cast<int64_t>(i)});
  }
}

void check_progress(const Manifest& manifest, const FieldChecker& checker) {
  const SavedProgress& progress = manifest.progress;
  const auto field = [](const char* name) { return FieldPath{"progress", -1, name}; };
  checker.require_limit(progress.step, kMostStep, field("step"));
  checker.require_between(progress.updates, 0, INT64_MAX, field("updates"));
  checker.require_between(progress.samples, 0, INT64_MAX, field("samples"));
  checker.require_between(progress.tokens, 0, INT64_MAX, field("tokens"));
  checker.require_between(progress.skipped, 0, INT64_MAX, field("skipped"));
  checker.require_between(progress.overflows, 0, INT64_MAX, field("overflows"));
  checker.require_finite(progress.lr, field("lr"));
  if (manifest.scaler.is_present) {
    checker.require_finite(manifest.scaler.scale, {"scaler", -1, "scale"});
  }
  checker.require_utf8(manifest.random.algorithm, {"rng", -1, "algorithm"});
  checker.require_between(manifest.random.key_version, 0, kMostInU16, {"rng", -1, "key_version"});
  checker.require_utf8(manifest.data.order, {"data", -1, "order"});
  checker.require_between(manifest.data.order_version, 0, kMostInU16,
                          {"data", -1, "order_version"});
}

void check_groups(const std::vector<SavedGroup>& groups, const FieldChecker& checker) {
  checker.require_limit(static_cast<int64_t>(groups.size()), kMostGroups, {"groups"});
  for (size_t i = 0; i < groups.size(); ++i) {
    const SavedGroup& group = groups[i];
    const auto field = [i](const char* name) {
      return FieldPath{"groups", static_cast<int64_t>(i), name};
    };
    checker.require_utf8(group.name, field("name"));
    checker.require_utf8(group.algorithm, field("algorithm"));
    checker.require_finite(group.lr_scale, field("lr_scale"));
    checker.require_finite(group.weight_decay, field("weight_decay"));
    checker.require_finite(group.beta1, field("beta1"));
    checker.require_finite(group.beta2, field("beta2"));
    checker.require_finite(group.epsilon, field("epsilon"));
  }
}

void check_states(const SavedTensor& tensor, int64_t t, const FieldChecker& checker) {
  const int64_t volume = checked_volume(tensor.shape, t, checker);
  checker.require(!tensor.states.empty(), "a tensor without states", {"tensors", t, "states"}, 0,
                  1);
  int previous = 0;
  for (size_t i = 0; i < tensor.states.size(); ++i) {
    const TensorState& state = tensor.states[i];
    const auto field = [t, i](const char* name) {
      return FieldPath{"tensors", t, "states", static_cast<int64_t>(i), name};
    };
    const int kind = static_cast<int>(state.kind);
    checker.require_between(kind, 1, static_cast<int>(StateKind::kExtra), field("kind"));
    checker.require(kind > previous, "kinds do not ascend", field("kind"), kind, previous + 1);
    previous = kind;
    checker.require(dtype_size(state.dtype) > 0, "an unknown element type", field("dtype"),
                    static_cast<int>(state.dtype), static_cast<int>(DType::kUInt8));
    checker.require(state.elements == volume, "not the volume of the shape", field("elements"),
                    state.elements, volume);
  }
}

void check_tensors(const Manifest& manifest, const FieldChecker& checker) {
  const std::vector<SavedTensor>& tensors = manifest.tensors;
  checker.require_limit(static_cast<int64_t>(tensors.size()), FormatLimits::kTensors, {"tensors"});
  const auto groups = static_cast<int64_t>(manifest.groups.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto t = static_cast<int64_t>(i);
    const std::string& name = tensors[i].name;
    const FieldPath field{"tensors", t, "name"};
    checker.require(!name.empty(), "a name is empty", field, name, 1);
    checker.require_limit(static_cast<int64_t>(name.size()), FormatLimits::kNameBytes, field);
    checker.require_utf8(name, field);
    checker.require(i == 0 || tensors[i - 1].name < name, "names are not sorted and unique", field,
                    name, i == 0 ? name : tensors[i - 1].name);
    check_states(tensors[i], t, checker);
    checker.require_between(tensors[i].group, 0, groups > 0 ? groups - 1 : 0,
                            {"tensors", t, "group"});
  }
}

void check_files(const Manifest& manifest, const FieldChecker& checker) {
  const std::vector<SavedFile>& files = manifest.files;
  const SavedLayout& layout = manifest.layout;
  const int64_t ranks = layout.tensor * layout.pipeline * layout.data;
  checker.require_limit(static_cast<int64_t>(files.size()), FormatLimits::kFiles, {"files"});
  int64_t total = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const SavedFile& file = files[i];
    const auto field = [i](const char* name) {
      return FieldPath{"files", static_cast<int64_t>(i), name};
    };
    checker.require_limit(file.ordinal, FormatLimits::kFiles - 1, field("ordinal"));
    checker.require_between(file.ordinal, i == 0 ? 0 : int64_t{files[i - 1].ordinal} + 1, ranks - 1,
                            field("ordinal"));
    checker.require_between(file.tensor, 0, layout.tensor - 1, field("tensor"));
    checker.require_between(file.pipeline, 0, layout.pipeline - 1, field("pipeline"));
    checker.require_between(file.data, 0, layout.data - 1, field("data"));
    checker.require_between(file.plt_bytes, kShardHeaderBytes + 1, INT64_MAX, field("plt_bytes"));
    checker.require_between(file.idx_bytes, kTrailerBytes + 1, FormatLimits::kIndexBytes,
                            field("idx_bytes"));
    checker.require(!__builtin_add_overflow(total, file.plt_bytes, &total),
                    "the sum of all shards overflows", field("plt_bytes"), file.plt_bytes,
                    INT64_MAX);
  }
}

bool is_property_name(std::string_view name) {
  if (name.empty()) return false;
  for (const char c : name) {
    const bool is_known =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
    if (!is_known) return false;
  }
  return true;
}

void check_properties(const std::vector<SavedProperty>& properties, const FieldChecker& checker) {
  checker.require_limit(static_cast<int64_t>(properties.size()), FormatLimits::kProperties,
                        {"properties"});
  int64_t total = 0;
  for (size_t i = 0; i < properties.size(); ++i) {
    const SavedProperty& property = properties[i];
    const auto field = [i](const char* name) {
      return FieldPath{"properties", static_cast<int64_t>(i), name};
    };
    const bool is_text = property.type == SavedProperty::Type::kText;
    const std::string_view text = is_text ? std::string_view(property.text) : std::string_view();
    checker.require_limit(static_cast<int64_t>(property.name.size()), kPropertyNameBytes,
                          field("name"));
    checker.require(is_property_name(property.name), "not a name of [a-z0-9_.-]", field("name"),
                    property.name, kPropertyNameBytes);
    checker.require(i == 0 || properties[i - 1].name < property.name,
                    "names are not sorted and unique", field("name"), property.name,
                    i == 0 ? property.name : properties[i - 1].name);
    checker.require_between(static_cast<int>(property.type), 1,
                            static_cast<int>(SavedProperty::Type::kText), field("type"));
    checker.require_limit(static_cast<int64_t>(text.size()), FormatLimits::kPropertyTextBytes,
                          field("text"));
    checker.require_utf8(text, field("text"));
    total += static_cast<int64_t>(property.name.size() + text.size());
    checker.require_limit(total, FormatLimits::kPropertyBytes, {"properties"});
  }
}

void check_config(const Manifest& manifest, const FieldChecker& checker) {
  for (size_t i = 0; i < manifest.config.size(); ++i) {
    const auto& [key, value] = manifest.config[i];
    const FieldPath field{"config", static_cast<int64_t>(i), "key"};
    checker.require(!key.empty(), "a key is empty", field, key, 1);
    checker.require_utf8(key, field);
    checker.require(i == 0 || manifest.config[i - 1].first < key, "keys are not sorted and unique",
                    field, key, i == 0 ? key : manifest.config[i - 1].first);
    checker.require_utf8(value, {"config", static_cast<int64_t>(i), "value"});
  }
}

// What the reader's proof of the buffer allows: one table for each entry, and bytes for all texts.
void check_extent(const Manifest& manifest, const FieldChecker& checker) {
  constexpr int64_t kSingleTables = 7;
  const size_t tables = manifest.config.size() + manifest.data.parts.size() +
                        manifest.groups.size() + manifest.tensors.size() +
                        manifest.properties.size();
  checker.require_limit(static_cast<int64_t>(tables) + kSingleTables, kMostTables, {"tables"});
  size_t texts = manifest.format.writer.size() + manifest.format.numerics.size() +
                 manifest.random.algorithm.size() + manifest.data.order.size();
  for (const auto& [key, value] : manifest.config) texts += key.size() + value.size();
  for (const SavedGroup& group : manifest.groups)
    texts += group.name.size() + group.algorithm.size();
  checker.require_limit(static_cast<int64_t>(texts), FormatLimits::kManifestBytes, {"texts"});
}

}  // namespace

std::string FieldPath::text() const {
  std::string out = outer;
  if (index >= 0) out += '[' + std::to_string(index) + ']';
  if (inner != nullptr) (out += '.') += inner;
  if (inner_index >= 0) out += '[' + std::to_string(inner_index) + ']';
  if (leaf != nullptr) (out += '.') += leaf;
  return out;
}

void FieldChecker::require_finite(double value, const FieldPath& field) const {
  require(std::isfinite(value), "a number is not finite", field,
          std::isnan(value) ? "nan" : "infinite", "finite");
}

void FieldChecker::require_utf8(std::string_view text, const FieldPath& field) const {
  require(is_utf8(text), "a text is not UTF-8", field, text, "UTF-8");
}

int64_t checked_volume(const Shape& shape, int64_t tensor, const FieldChecker& checker) {
  const auto dims = FieldPath{"tensors", tensor, "shape"};
  checker.require_between(shape.dims(), 1, Shape::kMaxDims, dims);
  int64_t volume = 1;
  for (int d = 0; d < shape.dims(); ++d) {
    const FieldPath field{"tensors", tensor, "shape", d};
    checker.require_between(shape[d], 1, INT64_MAX, field);
    checker.require(!__builtin_mul_overflow(volume, shape[d], &volume) && volume <= INT64_MAX / 8,
                    "the volume of a tensor overflows", field, shape[d], INT64_MAX / 8);
  }
  return volume;
}

void check_manifest(const Manifest& manifest, const FieldChecker& checker) {
  check_extent(manifest, checker);
  check_format(manifest.format, checker);
  check_layout(manifest.layout, checker);
  check_config(manifest, checker);
  check_progress(manifest, checker);
  check_groups(manifest.groups, checker);
  check_tensors(manifest, checker);
  check_files(manifest, checker);
  check_properties(manifest.properties, checker);
}

}  // namespace plait
