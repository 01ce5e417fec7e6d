#include "bindings/cli/describe.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

int64_t element_bytes(int64_t dtype) {
  if (dtype == PLAIT_DTYPE_FLOAT32 || dtype == PLAIT_DTYPE_INT32) return 4;
  if (dtype == PLAIT_DTYPE_INT64) return 8;
  return dtype == PLAIT_DTYPE_UINT8 ? 1 : 2;
}

float half_value(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value = 0;
  if (exponent == 0) {
    value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t wide =
      sign | (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) | fraction << 13;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

template <class Type>
Type read_as(const unsigned char* data, int64_t index) {
  Type value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

std::string value_text(const unsigned char* data, int64_t dtype, int64_t index) {
  const auto real = [](float value) { return rounded(value, 9); };
  switch (dtype) {
    case PLAIT_DTYPE_FLOAT32:
      return real(read_as<float>(data, index));
    case PLAIT_DTYPE_FLOAT16:
      return real(half_value(read_as<uint16_t>(data, index)));
    case PLAIT_DTYPE_BFLOAT16: {
      const uint32_t wide = static_cast<uint32_t>(read_as<uint16_t>(data, index)) << 16;
      float value = 0;
      std::memcpy(&value, &wide, sizeof value);
      return real(value);
    }
    case PLAIT_DTYPE_INT32:
      return std::to_string(read_as<int32_t>(data, index));
    case PLAIT_DTYPE_INT64:
      return std::to_string(read_as<int64_t>(data, index));
    default:
      return std::to_string(data[index]);
  }
}

std::string hex_text(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// Row-major element `index` as "[3, 17]".
std::string element_text(const std::vector<int64_t>& shape, int64_t index) {
  std::vector<int64_t> place(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    place[dim] = index % shape[dim];
    index /= shape[dim];
  }
  return shape_text(place);
}

const unsigned char* map(const Checkpoint& checkpoint, const Entry& entry, int64_t* bytes) {
  const void* data = nullptr;
  call([&](plait_error** err) {
    return plait_checkpoint_map(checkpoint.get(), entry.name.c_str(),
                                static_cast<int32_t>(entry.kind), &data, bytes, err);
  });
  return static_cast<const unsigned char*>(data);
}

}  // namespace

Entry entry_at(const Checkpoint& checkpoint, int64_t index) {
  auto info = sized<plait_entry_info>();
  call([&](plait_error** err) {
    return plait_checkpoint_entry_at(checkpoint.get(), index, &info, err);
  });
  Entry entry;
  entry.name = info.name;
  entry.kind = info.kind;
  entry.dtype = info.dtype;
  entry.elements = info.elements;
  entry.has_digest = (info.valid & PLAIT_ENTRY_DIGEST) != 0;
  entry.digest = static_cast<uint64_t>(info.digest);
  if ((info.valid & PLAIT_ENTRY_PROPERTY) != 0) {
    entry.type = info.type;
    entry.integer = info.integer;
    entry.real = info.real;
    entry.text = info.text;
  }
  const int64_t shape[] = {info.shape0, info.shape1, info.shape2, info.shape3};
  for (int64_t i = 0; i < info.dims && i < 4; ++i) entry.shape.push_back(shape[i]);
  return entry;
}

std::vector<Entry> entries_of(const Checkpoint& checkpoint) {
  std::vector<Entry> entries;
  const int64_t count = plait_checkpoint_entry_count(checkpoint.get());
  for (int64_t i = 0; i < count; ++i) {
    entries.push_back(entry_at(checkpoint, i));
  }
  return entries;
}

std::string dtype_name(int64_t dtype) {
  switch (dtype) {
    case PLAIT_DTYPE_FLOAT32:
      return "float32";
    case PLAIT_DTYPE_BFLOAT16:
      return "bfloat16";
    case PLAIT_DTYPE_FLOAT16:
      return "float16";
    case PLAIT_DTYPE_INT32:
      return "int32";
    case PLAIT_DTYPE_INT64:
      return "int64";
    case PLAIT_DTYPE_UINT8:
      return "uint8";
    default:
      return "type " + std::to_string(dtype);
  }
}

std::string kind_name(int64_t kind) {
  const char* names[] = {"property", "param", "master", "moment1", "moment2", "extra"};
  if (kind >= 0 && kind < 6) return names[kind];
  return kind == PLAIT_KIND_GRADIENT ? "gradient" : "kind " + std::to_string(kind);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

std::string property_text(const Entry& entry) {
  if (entry.type == PLAIT_PROPERTY_INTEGER) return std::to_string(entry.integer);
  return entry.type == PLAIT_PROPERTY_REAL ? json_number(entry.real) : json_text(entry.text);
}

bool is_same_property(const Entry& a, const Entry& b) {
  return a.type == b.type && a.integer == b.integer && a.text == b.text &&
         std::memcmp(&a.real, &b.real, sizeof a.real) == 0;
}

std::string entry_json(const Entry& entry) {
  JsonLine line;
  line.text("name", entry.name).text("kind", kind_name(entry.kind));
  if (entry.kind == 0) return line.raw("value", property_text(entry)).done();
  line.text("dtype", dtype_name(entry.dtype))
      .raw("shape", shape_text(entry.shape))
      .number("elements", entry.elements);
  if (entry.has_digest) line.text("digest", hex_text(entry.digest));
  return line.done();
}

std::string first_difference(const Checkpoint& first, const Checkpoint& second, const Entry& entry,
                             const Entry& other) {
  if (entry.shape != other.shape) {
    return "shapes " + shape_text(entry.shape) + " and " + shape_text(other.shape);
  }
  if (entry.dtype != other.dtype) {
    return "types " + dtype_name(entry.dtype) + " and " + dtype_name(other.dtype);
  }
  int64_t bytes_a = 0, bytes_b = 0;
  const unsigned char* a = map(first, entry, &bytes_a);
  const unsigned char* b = map(second, other, &bytes_b);
  const int64_t bytes = std::min(bytes_a, bytes_b);
  if (bytes_a == bytes_b && std::memcmp(a, b, static_cast<size_t>(bytes)) == 0) return "";
  int64_t place = 0;
  while (place < bytes && a[place] == b[place]) ++place;
  const int64_t index = place / element_bytes(entry.dtype);
  return "element " + element_text(entry.shape, index) + ": " + value_text(a, entry.dtype, index) +
         " and " + value_text(b, entry.dtype, index);
}

}  // namespace plait::cli
