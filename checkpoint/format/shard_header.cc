#include "checkpoint/format/shard_header.h"

#include <algorithm>
#include <cstdio>

#include "checkpoint/format/hash.h"
#include "checkpoint/format/little_endian.h"
#include "checkpoint/format/rules.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr std::string_view kShardMagic = "\x89PLT\r\n\x1a\n";
constexpr uint32_t kByteOrder = 0x01020304, kSwappedByteOrder = 0x04030201;
// Places of the fields.
constexpr size_t kMajorAt = 8, kMinorAt = 10, kByteOrderAt = 12, kSaveIdAt = 16, kOrdinalAt = 32,
                 kAlignAt = 36, kFileBytesAt = 40, kSliceCountAt = 48, kStepAt = 56, kZerosAt = 64,
                 kHeaderHashAt = 4088;

[[noreturn]] void refuse_header(const std::string& path, size_t offset, const char* sentence) {
  throw Error("corrupt", sentence).with("path", path).with("offset", offset);
}

// Words of a format that this build does not read.
[[noreturn]] void refuse_header_format(const std::string& path, const std::string& found,
                                       const std::string& supported) {
  throw Error("format", "the shard is of a format that this build does not read")
      .with("path", path)
      .with("found", found)
      .with("supported", supported);
}

void require_header_hash(std::string_view data, const std::string& path) {
  const uint64_t stored = load_integer<uint64_t>(data, kHeaderHashAt);
  const uint64_t hash = xxh3_64(data.substr(0, kHeaderHashAt));
  const auto order = load_integer<uint32_t>(data, kByteOrderAt);
  if (order == kSwappedByteOrder && stored == __builtin_bswap64(hash)) {
    refuse_header_format(path, "big-endian", "little-endian");
  }
  if (stored != hash) refuse_header(path, kHeaderHashAt, "the header has another hash");
  if (order != kByteOrder) {
    refuse_header_format(path, "byte order " + std::to_string(order), "little-endian");
  }
}

// A field in [least, most].
int64_t header_field(std::string_view data, size_t offset, const std::string& path,
                     const char* field, int64_t least, int64_t most) {
  const bool is_wide = offset >= kFileBytesAt;
  const uint64_t value =
      is_wide ? load_integer<uint64_t>(data, offset) : load_integer<uint32_t>(data, offset);
  if (value < static_cast<uint64_t>(least) || value > static_cast<uint64_t>(most)) {
    throw Error("invalid_field", "a field of the header is out of range")
        .with("path", path)
        .with("offset", offset)
        .with("field", field)
        .with("value", value)
        .with("minimum", least)
        .with("limit", most);
  }
  return static_cast<int64_t>(value);
}

std::string numbered_name(uint32_t ordinal, const char* extension) {
  char text[32];
  std::snprintf(text, sizeof text, "s%05u.%s", ordinal, extension);
  return text;
}

}  // namespace

std::string encode_shard_header(const ShardHeader& header) {
  std::string bytes(static_cast<size_t>(kShardHeaderBytes), '\0');
  kShardMagic.copy(bytes.data(), kShardMagic.size());
  store_integer(&bytes, kMajorAt, static_cast<uint16_t>(header.major));
  store_integer(&bytes, kMinorAt, static_cast<uint16_t>(header.minor));
  store_integer(&bytes, kByteOrderAt, kByteOrder);
  store_integer(&bytes, kSaveIdAt, header.save_id.low);
  store_integer(&bytes, kSaveIdAt + 8, header.save_id.high);
  store_integer(&bytes, kOrdinalAt, header.ordinal);
  store_integer(&bytes, kAlignAt, static_cast<uint32_t>(header.align_log2));
  store_integer(&bytes, kFileBytesAt, header.file_bytes);
  store_integer(&bytes, kSliceCountAt, header.slices);
  store_integer(&bytes, kStepAt, header.step);
  const uint64_t hash = xxh3_64(std::string_view(bytes).substr(0, kHeaderHashAt));
  store_integer(&bytes, kHeaderHashAt, hash);
  return bytes;
}

ShardHeader decode_shard_header(std::string_view data, const std::string& path) {
  if (data.size() < static_cast<size_t>(kShardHeaderBytes)) {
    refuse_header(path, data.size(), "the shard is too short for its header");
  }
  data = data.substr(0, static_cast<size_t>(kShardHeaderBytes));
  if (data.substr(0, kShardMagic.size()) != kShardMagic) {
    refuse_header(path, 0, "the file does not begin as a shard: its writer never ended it");
  }
  require_header_hash(data, path);
  ShardHeader header;
  header.major = load_integer<uint16_t>(data, kMajorAt);
  header.minor = load_integer<uint16_t>(data, kMinorAt);
  if (header.major != kFormatMajor) {
    refuse_header_format(path, std::to_string(header.major), std::to_string(kFormatMajor));
  }
  header.save_id = {load_integer<uint64_t>(data, kSaveIdAt),
                    load_integer<uint64_t>(data, kSaveIdAt + 8)};
  header.ordinal = static_cast<uint32_t>(
      header_field(data, kOrdinalAt, path, "ordinal", 0, FormatLimits::kFiles - 1));
  header.align_log2 = static_cast<int>(
      header_field(data, kAlignAt, path, "align_log2", kLeastAlignLog2, kMostAlignLog2));
  header.file_bytes =
      header_field(data, kFileBytesAt, path, "file_bytes", kShardHeaderBytes + 1, INT64_MAX);
  header.slices = header_field(data, kSliceCountAt, path, "slices", 1, FormatLimits::kSlices);
  header.step = header_field(data, kStepAt, path, "step", 0, kMostStep);
  const size_t other = data.substr(0, kHeaderHashAt).find_first_not_of('\0', kZerosAt);
  if (other != std::string_view::npos && header.minor <= kFormatMinor) {
    throw Error("invalid_field", "the header is not zero behind its fields")
        .with("path", path)
        .with("offset", other)
        .with("field", "zeros")
        .with("value", static_cast<int>(static_cast<unsigned char>(data[other])))
        .with("limit", 0);
  }
  return header;
}

std::string shard_name(uint32_t ordinal) { return numbered_name(ordinal, "plt"); }
std::string index_name(uint32_t ordinal) { return numbered_name(ordinal, "idx"); }

}  // namespace plait
