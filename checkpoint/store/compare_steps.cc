#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include "checkpoint/store/boxes.h"
#include "checkpoint/store/step_state.h"

namespace plait {
namespace {

constexpr int64_t kRangeBytes = int64_t{8} << 20;  // compared in memory

std::string real_text(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  char text[40];
  if (value != value) {
    std::snprintf(text, sizeof text, "nan(%016llx)", static_cast<unsigned long long>(bits));
    return text;
  }
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// A stored element; patterns that no number tells apart are given as bits.
std::string element_text(const char* data, DType dtype) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, data, sizeof value);
    return value;
  };
  const auto float_text = [](float value, uint32_t bits) {
    char text[40];
    if (value != value) {
      std::snprintf(text, sizeof text, "nan(%x)", bits);
      return std::string(text);
    }
    return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
  };
  switch (dtype) {
    case DType::kFloat32:
      return float_text(as(0.0f), as(uint32_t{}));
    case DType::kBFloat16:
      return float_text(to_float(as(BFloat16{})), as(uint16_t{}));
    case DType::kFloat16:
      return float_text(to_float(as(Float16{})), as(uint16_t{}));
    case DType::kInt32:
      return std::to_string(as(int32_t{}));
    case DType::kInt64:
      return std::to_string(as(int64_t{}));
    case DType::kUInt8:
      return std::to_string(as(uint8_t{}));
  }
  return "";
}

std::string place_text(const Shape& shape, int64_t element) {
  std::string text;
  for (int d = shape.dims() - 1; d >= 0; --d) {
    text = std::to_string(element % shape[d]) + (text.empty() ? "" : ",") + text;
    element /= shape[d];
  }
  return "[" + text + "]";
}

/// The same tensor and kind of two steps, alike in shape and type.
struct StatePair {
  const StepReader& a;
  const StepReader& b;
  int64_t tensor_a, tensor_b;
  StateKind kind;
  DType dtype;
  Shape shape;
};

/// Elements [first, first + count) in row-major order.
struct ElementRange {
  int64_t first = 0, count = 0;
};

/// Digests of ranges of `step` elements each, by one pass over the slices.
std::vector<uint64_t> range_digests(const StepReader& reader, int64_t tensor, const StatePair& pair,
                                    int64_t step) {
  const Box whole = Box::whole(pair.shape);
  const int64_t elements = whole.elements();
  std::vector<ReadTarget> targets;
  std::vector<size_t> range_of;
  std::vector<uint64_t> digests;
  for (int64_t first = 0; first < elements; first += step) {
    for (const Box& box : cut_range(whole, first, std::min(step, elements - first))) {
      targets.push_back({tensor, pair.kind, box, pair.dtype, nullptr, 0});
      range_of.push_back(digests.size());
    }
    digests.push_back(0);
  }
  reader.read(targets);
  for (size_t i = 0; i < targets.size(); ++i) digests[range_of[i]] += targets[i].digest;
  return digests;
}

/// The stored bytes of a range: its boxes follow each other in row-major order.
std::vector<char> range_bytes(const StepReader& reader, int64_t tensor, const StatePair& pair,
                              const ElementRange& range) {
  const int64_t size = dtype_size(pair.dtype);
  std::vector<char> bytes(static_cast<size_t>(range.count * size));
  std::vector<ReadTarget> targets;
  char* data = bytes.data();
  for (const Box& box : cut_range(Box::whole(pair.shape), range.first, range.count)) {
    targets.push_back({tensor, pair.kind, box, pair.dtype, data, 0});
    data += box.elements() * size;
  }
  reader.read(targets);
  return bytes;
}

/// Digests of ranges find where to look, so that memory stays small whatever a tensor's size: sums
/// over ranges add up to the whole, so one of them differs if the wholes do.
void compare_values(const StatePair& pair, StateDifference difference,
                    std::vector<StateDifference>* out) {
  const int64_t size = dtype_size(pair.dtype), elements = pair.shape.elements();
  const int64_t step = kRangeBytes / size;
  ElementRange range{0, elements};
  if (elements > step) {
    const std::vector<uint64_t> a = range_digests(pair.a, pair.tensor_a, pair, step);
    const std::vector<uint64_t> b = range_digests(pair.b, pair.tensor_b, pair, step);
    const auto place = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
    range.first = std::min(place * step, elements);
    range.count = std::min(step, elements - range.first);
  }
  const std::vector<char> a = range_bytes(pair.a, pair.tensor_a, pair, range);
  const std::vector<char> b = range_bytes(pair.b, pair.tensor_b, pair, range);
  const auto place = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  if (place == static_cast<int64_t>(a.size())) {
    throw Error("digest_mismatch", "two digests differ where no element does")
        .with("tensor", pair.a.manifest().tensors[static_cast<size_t>(pair.tensor_a)].name)
        .with("kind", state_kind_name(pair.kind));
  }
  const int64_t element = place / size;
  difference.where = place_text(pair.shape, range.first + element);
  difference.a = element_text(a.data() + element * size, pair.dtype);
  difference.b = element_text(b.data() + element * size, pair.dtype);
  out->push_back(std::move(difference));
}

std::string type_text(const SavedTensor& tensor, const TensorState* state) {
  if (state == nullptr) return "absent";
  return std::string(dtype_name(state->dtype)) + tensor.shape.text();
}

/// Tensors −1 and states null where a step has none.
void compare_kind(const StepReader& a, const StepReader& b, int64_t tensor_a, int64_t tensor_b,
                  StateKind kind, std::vector<StateDifference>* out) {
  static const SavedTensor kNone;
  const auto tensor_of = [](const StepReader& reader, int64_t tensor) -> const SavedTensor& {
    return tensor < 0 ? kNone : reader.manifest().tensors[static_cast<size_t>(tensor)];
  };
  const SavedTensor& one = tensor_of(a, tensor_a);
  const SavedTensor& other = tensor_of(b, tensor_b);
  const TensorState* state_a = tensor_a < 0 ? nullptr : a.manifest().state(tensor_a, kind);
  const TensorState* state_b = tensor_b < 0 ? nullptr : b.manifest().state(tensor_b, kind);
  if (state_a == nullptr && state_b == nullptr) return;
  const std::string& name = tensor_a < 0 ? other.name : one.name;
  StateDifference difference{name + " " + state_kind_name(kind), "", type_text(one, state_a),
                             type_text(other, state_b)};
  if (difference.a != difference.b) {
    out->push_back(std::move(difference));
    return;
  }
  if (state_a->digest == state_b->digest) return;
  compare_values({a, b, tensor_a, tensor_b, kind, state_a->dtype, one.shape}, std::move(difference),
                 out);
}

using FieldTexts = std::vector<std::pair<std::string, std::string>>;

void add_progress(const Manifest& manifest, FieldTexts* out) {
  const SavedProgress& progress = manifest.progress;
  out->emplace_back("progress.step", std::to_string(progress.step));
  out->emplace_back("progress.updates", std::to_string(progress.updates));
  out->emplace_back("progress.samples", std::to_string(progress.samples));
  out->emplace_back("progress.tokens", std::to_string(progress.tokens));
  out->emplace_back("progress.skipped", std::to_string(progress.skipped));
  out->emplace_back("progress.overflows", std::to_string(progress.overflows));
  out->emplace_back("progress.lr", real_text(progress.lr));
  const SavedScaler& scaler = manifest.scaler;
  out->emplace_back("scaler", scaler.is_present ? "present" : "absent");
  if (scaler.is_present) {
    out->emplace_back("scaler.scale", real_text(scaler.scale));
    out->emplace_back("scaler.good_steps", std::to_string(scaler.good_steps));
    out->emplace_back("scaler.hysteresis_left", std::to_string(scaler.hysteresis_left));
  }
  out->emplace_back("random.algorithm", manifest.random.algorithm);
  out->emplace_back("random.key_version", std::to_string(manifest.random.key_version));
  out->emplace_back("random.seed", std::to_string(manifest.random.seed));
}

void add_data(const SavedData& data, FieldTexts* out) {
  out->emplace_back("data.order", data.order);
  out->emplace_back("data.order_version", std::to_string(data.order_version));
  out->emplace_back("data.seed", std::to_string(data.seed));
  for (size_t i = 0; i < data.parts.size(); ++i) {
    const std::string name = "data.parts[" + std::to_string(i) + "].";
    const SavedDataset& part = data.parts[i];
    out->emplace_back(name + "fingerprint", std::to_string(part.fingerprint));
    out->emplace_back(name + "tokens", std::to_string(part.tokens));
    out->emplace_back(name + "drawn", std::to_string(part.drawn));
    out->emplace_back(name + "weight", std::to_string(part.weight));
    out->emplace_back(name + "credit", std::to_string(part.credit));
  }
}

/// With the type, so that 1 and 1.0 and "1" differ.
std::string property_text(const SavedProperty& property) {
  switch (property.type) {
    case SavedProperty::Type::kInteger:
      return "int " + std::to_string(property.integer);
    case SavedProperty::Type::kReal:
      return "real " + real_text(property.real);
    case SavedProperty::Type::kText:
      return "text " + property.text;
  }
  return "";
}

FieldTexts field_texts(const Manifest& manifest) {
  FieldTexts fields;
  add_progress(manifest, &fields);
  add_data(manifest.data, &fields);
  for (const SavedProperty& property : manifest.properties) {
    fields.emplace_back("properties." + property.name, property_text(property));
  }
  return fields;
}

/// In the order of `a`, then those that `b` alone has.
void compare_fields(const FieldTexts& a, const FieldTexts& b, std::vector<StateDifference>* out) {
  const auto sorted = [](FieldTexts fields) {
    std::sort(fields.begin(), fields.end());
    return fields;
  };
  const auto find = [](const FieldTexts& fields, const std::string& name) -> const std::string* {
    const auto place =
        std::lower_bound(fields.begin(), fields.end(), name,
                         [](const auto& field, const auto& key) { return field.first < key; });
    return place != fields.end() && place->first == name ? &place->second : nullptr;
  };
  const FieldTexts in_a = sorted(a), in_b = sorted(b);
  for (const auto& [name, text] : a) {
    const std::string* other = find(in_b, name);
    if (other == nullptr) out->push_back({name, "", text, "absent"});
    if (other != nullptr && *other != text) out->push_back({name, "", text, *other});
  }
  for (const auto& [name, text] : b) {
    if (find(in_a, name) == nullptr) out->push_back({name, "", "absent", text});
  }
}

}  // namespace

std::vector<StateDifference> compare_steps(const StepReader& a, const StepReader& b) {
  std::vector<StateDifference> out;
  const std::vector<SavedTensor>& in_a = a.manifest().tensors;
  const std::vector<SavedTensor>& in_b = b.manifest().tensors;
  size_t i = 0, j = 0;
  while (i < in_a.size() || j < in_b.size()) {
    const int order = i == in_a.size()   ? 1
                      : j == in_b.size() ? -1
                                         : in_a[i].name.compare(in_b[j].name);
    const int64_t tensor_a = order <= 0 ? static_cast<int64_t>(i++) : -1;
    const int64_t tensor_b = order >= 0 ? static_cast<int64_t>(j++) : -1;
    for (const StateKind kind : {StateKind::kParam, StateKind::kMaster, StateKind::kMoment1,
                                 StateKind::kMoment2, StateKind::kExtra}) {
      compare_kind(a, b, tensor_a, tensor_b, kind, &out);
    }
  }
  compare_fields(field_texts(a.manifest()), field_texts(b.manifest()), &out);
  return out;
}

}  // namespace plait
