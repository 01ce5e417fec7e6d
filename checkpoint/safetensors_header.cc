#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "checkpoint/json_guard.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

using Json = nlohmann::json;

struct TypeRow {
  const char* name;
  uint64_t bits;
  FileDType dtype;
};

constexpr TypeRow kTypes[] = {
    {"F64", 64, FileDType::kF64},      {"F32", 32, FileDType::kF32},
    {"F16", 16, FileDType::kF16},      {"BF16", 16, FileDType::kBF16},
    {"I64", 64, FileDType::kOther},    {"I32", 32, FileDType::kOther},
    {"I16", 16, FileDType::kOther},    {"I8", 8, FileDType::kOther},
    {"U64", 64, FileDType::kOther},    {"U32", 32, FileDType::kOther},
    {"U16", 16, FileDType::kOther},    {"U8", 8, FileDType::kOther},
    {"BOOL", 8, FileDType::kOther},    {"C64", 64, FileDType::kOther},
    {"F8_E4M3", 8, FileDType::kOther}, {"F8_E5M2", 8, FileDType::kOther},
    {"F8_E8M0", 8, FileDType::kOther}, {"F6_E2M3", 6, FileDType::kOther},
    {"F6_E3M2", 6, FileDType::kOther}, {"F4", 4, FileDType::kOther},
};

constexpr int64_t kMaxStringBytes = 1 << 22;
constexpr int kMaxDepth = 4;
constexpr int32_t kMaxDims = 64;  // of tensors nobody reads

class HeaderHandler final : public nlohmann::json_sax<Json> {
 public:
  HeaderHandler(int64_t data_offset, int64_t data_bytes, const std::string& file)
      : data_offset_(data_offset), data_bytes_(data_bytes), file_(file) {}

  std::vector<SafetensorsEntry> take() { return std::move(entries_); }

  bool null() override {
    if (place_ != Place::kMetadata) refuse("a null where none can be");
    place_ = Place::kRoot;
    return true;
  }
  bool boolean(bool) override { return refuse("a truth value where none can be"); }
  bool number_integer(number_integer_t) override { return refuse("a number is negative"); }
  bool number_float(number_float_t, const string_t&) override {
    return refuse("a number is not an unsigned 64-bit integer");
  }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& text) override;
  bool start_object(size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error("invalid_field", "the header is not well-formed JSON in UTF-8")
        .with("file", file_)
        .with("position", position);
  }

 private:
  // Where the next event belongs.
  enum class Place {
    kStart,
    kRoot,
    kMetadata,
    kInMetadata,
    kTensor,
    kInTensor,
    kDType,
    kShape,
    kInShape,
    kOffsets,
    kInOffsets,
    kEnd
  };

  [[noreturn]] bool refuse(const char* sentence) const {
    throw Error("invalid_field", sentence).with("file", file_).with("field", field());
  }
  std::string field() const;
  void descend();
  void keep(const std::string& name);
  void finish_tensor();

  const int64_t data_offset_, data_bytes_;
  const std::string& file_;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_set<std::string> metadata_keys_;
  Place place_ = Place::kStart;
  int depth_ = 0;
  int64_t kept_bytes_ = 0;
  bool has_metadata_ = false;
  // The tensor being read.
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  uint64_t volume_ = 1;
  uint64_t offsets_[2] = {0, 0};
  int offset_count_ = 0;
};

std::string HeaderHandler::field() const {
  if (place_ == Place::kMetadata || place_ == Place::kInMetadata) return "__metadata__";
  if (entries_.empty() || place_ == Place::kStart || place_ == Place::kRoot) return "header";
  std::string text = shorten(entries_.back().name);
  if (place_ == Place::kDType) text += ".dtype";
  if (place_ == Place::kShape || place_ == Place::kInShape) text += ".shape";
  if (place_ == Place::kOffsets || place_ == Place::kInOffsets) text += ".data_offsets";
  return text;
}

void HeaderHandler::descend() {
  if (++depth_ <= kMaxDepth) return;
  throw Error("invalid_field", "the header is nested too deeply")
      .with("file", file_)
      .with("field", field())
      .with("value", depth_)
      .with("limit", kMaxDepth);
}

void HeaderHandler::keep(const std::string& name) {
  kept_bytes_ += static_cast<int64_t>(name.size());
  if (kept_bytes_ <= SafetensorsLimits::kNameBytes) return;
  throw Error("invalid_field", "the header's names are too long in all")
      .with("file", file_)
      .with("field", "names")
      .with("value", kept_bytes_)
      .with("limit", SafetensorsLimits::kNameBytes);
}

bool HeaderHandler::start_object(size_t) {
  descend();
  switch (place_) {
    case Place::kStart:
      place_ = Place::kRoot;
      return true;
    case Place::kMetadata:
      place_ = Place::kInMetadata;
      return true;
    case Place::kTensor:
      place_ = Place::kInTensor;
      return true;
    default:
      return refuse("a table where none can be");
  }
}

bool HeaderHandler::key(string_t& name) {
  if (place_ == Place::kRoot && name == "__metadata__") {
    if (has_metadata_) refuse("a duplicate key __metadata__");
    has_metadata_ = true;
    place_ = Place::kMetadata;
  } else if (place_ == Place::kRoot) {
    if (static_cast<int64_t>(entries_.size()) >= SafetensorsLimits::kTensors) {
      throw Error("invalid_field", "the header has too many tensors")
          .with("file", file_)
          .with("field", "tensors")
          .with("value", entries_.size() + 1)
          .with("limit", SafetensorsLimits::kTensors);
    }
    keep(name);
    SafetensorsEntry entry;
    entry.name = name;
    entries_.push_back(std::move(entry));
    has_dtype_ = has_shape_ = has_offsets_ = false;
    volume_ = 1;
    place_ = Place::kTensor;
  } else if (place_ == Place::kInMetadata) {
    keep(name);
    if (!metadata_keys_.insert(name).second) refuse("a duplicate key in __metadata__");
  } else {
    const bool is_dtype = name == "dtype", is_shape = name == "shape";
    if (!is_dtype && !is_shape && name != "data_offsets") {
      throw Error("invalid_field", "an unknown key of a tensor")
          .with("file", file_)
          .with("field", field())
          .with("value", shorten(name));
    }
    bool& is_seen = is_dtype ? has_dtype_ : is_shape ? has_shape_ : has_offsets_;
    if (is_seen) refuse("a duplicate key of a tensor");
    is_seen = true;
    place_ = is_dtype ? Place::kDType : is_shape ? Place::kShape : Place::kOffsets;
  }
  return true;
}

bool HeaderHandler::string(string_t& text) {
  if (place_ == Place::kInMetadata) return true;
  if (place_ != Place::kDType) refuse("a text where none can be");
  const TypeRow* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                    [&](const TypeRow& type) { return text == type.name; });
  if (row == std::end(kTypes)) {
    throw Error("invalid_field", "an unknown element type")
        .with("file", file_)
        .with("field", field())
        .with("value", shorten(text));
  }
  entries_.back().type_row = static_cast<uint8_t>(row - kTypes);
  entries_.back().dtype = row->dtype;
  place_ = Place::kInTensor;
  return true;
}

bool HeaderHandler::number_unsigned(number_unsigned_t value) {
  if (place_ == Place::kInOffsets) {
    if (offset_count_ == 2) refuse("more than two data offsets");
    offsets_[offset_count_++] = value;
    return true;
  }
  if (place_ != Place::kInShape) refuse("a number where none can be");
  SafetensorsEntry& entry = entries_.back();
  if (entry.dims == kMaxDims) refuse("a tensor has more than 64 dims");
  if (__builtin_mul_overflow(volume_, value, &volume_) || value > uint64_t{INT64_MAX} ||
      volume_ > uint64_t{INT64_MAX}) {
    throw Error("invalid_field", "the volume of a tensor overflows 63 bits")
        .with("file", file_)
        .with("field", field())
        .with("value", value);
  }
  if (entry.dims < Shape::kMaxDims) {
    entry.size[static_cast<size_t>(entry.dims)] = static_cast<int64_t>(value);
  }
  ++entry.dims;
  return true;
}

bool HeaderHandler::start_array(size_t) {
  descend();
  switch (place_) {
    case Place::kShape:
      place_ = Place::kInShape;
      return true;
    case Place::kOffsets:
      place_ = Place::kInOffsets;
      offset_count_ = 0;
      return true;
    default:
      return refuse("a list where none can be");
  }
}

bool HeaderHandler::end_array() {
  --depth_;
  if (place_ == Place::kInOffsets && offset_count_ != 2) refuse("not two data offsets");
  place_ = Place::kInTensor;
  return true;
}

bool HeaderHandler::end_object() {
  --depth_;
  if (place_ == Place::kInTensor) finish_tensor();
  place_ = depth_ == 0 ? Place::kEnd : Place::kRoot;
  return true;
}

void HeaderHandler::finish_tensor() {
  SafetensorsEntry& entry = entries_.back();
  if (!has_dtype_ || !has_shape_ || !has_offsets_) {
    refuse(!has_dtype_   ? "a tensor without dtype"
           : !has_shape_ ? "a tensor without shape"
                         : "a tensor without data_offsets");
  }
  const uint64_t begin = offsets_[0], end = offsets_[1];
  if (begin > end || end > static_cast<uint64_t>(data_bytes_)) {
    throw Error("invalid_field", "data offsets beyond the data section")
        .with("file", file_)
        .with("field", shorten(entry.name) + ".data_offsets")
        .with("value", std::to_string(begin) + "," + std::to_string(end))
        .with("limit", data_bytes_);
  }
  uint64_t bits = 0;
  const bool overflows = __builtin_mul_overflow(volume_, kTypes[entry.type_row].bits, &bits);
  if (overflows || bits % 8 != 0 || bits / 8 != end - begin) {
    throw Error("invalid_field", "the bytes of a tensor are not volume × element size")
        .with("file", file_)
        .with("field", shorten(entry.name) + ".data_offsets")
        .with("value", end - begin)
        .with("dtype", entry.type_name())
        .with("volume", volume_);
  }
  entry.offset = data_offset_ + static_cast<int64_t>(begin);
  entry.bytes = static_cast<int64_t>(end - begin);
}

/// Every byte of the data section belongs to exactly one tensor.
void check_tiling(const std::vector<SafetensorsEntry>& entries, int64_t begin, int64_t end,
                  const std::string& file) {
  std::vector<uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(entries[a].offset, entries[a].bytes) <
           std::pair(entries[b].offset, entries[b].bytes);
  });
  int64_t next = begin;
  for (uint32_t i : order) {
    const SafetensorsEntry& entry = entries[i];
    if (entry.offset != next) {
      throw Error("invalid_field", entry.offset > next ? "a hole before a tensor's data"
                                                       : "a tensor's data overlaps another's")
          .with("file", file)
          .with("field", shorten(entry.name) + ".data_offsets")
          .with("value", entry.offset - begin)
          .with("expected", next - begin);
    }
    next += entry.bytes;
  }
  if (next == end) return;
  throw Error("invalid_field", "the data section is longer than its tensors")
      .with("file", file)
      .with("field", "data")
      .with("value", end - begin)
      .with("limit", next - begin);
}

}  // namespace

const char* SafetensorsEntry::type_name() const { return kTypes[type_row].name; }

int64_t SafetensorsEntry::element_bytes() const {
  return dtype == FileDType::kOther ? 0 : static_cast<int64_t>(kTypes[type_row].bits / 8);
}

std::string SafetensorsEntry::shape_text() const {
  std::string text = "[";
  for (int32_t i = 0; i < std::min(dims, int32_t{Shape::kMaxDims}); ++i) {
    text += (i ? "," : "") + std::to_string(size[static_cast<size_t>(i)]);
  }
  return text + (dims > Shape::kMaxDims ? ",…]" : "]");
}

bool SafetensorsEntry::has_shape(const Shape& shape) const {
  if (dims != shape.dims()) return false;
  for (int i = 0; i < shape.dims(); ++i) {
    if (size[static_cast<size_t>(i)] != shape[i]) return false;
  }
  return true;
}

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view header, int64_t data_offset,
                                                       int64_t data_bytes,
                                                       const std::string& file) {
  const size_t last = header.find_last_not_of(' ');
  if (header.empty() || header.front() != '{' || header[last] != '}') {
    throw Error("invalid_field", "the header is not one JSON object and trailing spaces")
        .with("file", file)
        .with("field", "header");
  }
  guard_json_strings(header, kMaxStringBytes, file);
  HeaderHandler handler(data_offset, data_bytes, file);
  Json::sax_parse(header.begin(), header.end(), &handler);
  std::vector<SafetensorsEntry> entries = handler.take();
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].name != entries[i - 1].name) continue;
    throw Error("invalid_field", "a duplicate key: two tensors of one name")
        .with("file", file)
        .with("field", shorten(entries[i].name));
  }
  check_tiling(entries, data_offset, data_offset + data_bytes, file);
  return entries;
}

}  // namespace plait
