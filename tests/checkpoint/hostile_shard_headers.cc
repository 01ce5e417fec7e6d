// Shard headers with a right hash that lie, and one of another byte order.
#include <cstring>
#include <string>
#include <string_view>

#include "checkpoint/format/hash.h"
#include "checkpoint/format/shard_header.h"
#include "tests/checkpoint/format_fixture.h"
#include "tests/checkpoint/hostile_corpus.h"

namespace plait {
namespace {

/// With a right hash again.
template <class Value>
std::string sealed_header(size_t offset, Value value) {
  std::string bytes = encode_shard_header(sample_header());
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  const uint64_t hash = xxh3_64(std::string_view(bytes).substr(0, 4088));
  std::memcpy(bytes.data() + 4088, &hash, sizeof hash);
  return bytes;
}

/// As a big-endian machine would write it.
std::string swapped_header() {
  std::string bytes = sealed_header(12, uint32_t{0x04030201});
  const uint64_t hash = __builtin_bswap64(xxh3_64(std::string_view(bytes).substr(0, 4088)));
  std::memcpy(bytes.data() + 4088, &hash, sizeof hash);
  return bytes;
}

}  // namespace

std::vector<HostileFile> hostile_shard_headers() {
  std::vector<HostileFile> files;
  const auto add = [&](std::string bytes, const char* word, const std::string& part) {
    files.push_back(
        {HostileFile::Kind::kShardHeader, part, std::move(bytes), word, {"path=s00003.plt", part}});
  };
  add(sealed_header(8, uint16_t{1}), "format", "found=1 supported=0");
  add(sealed_header(12, uint32_t{0x01020305}), "format", "supported=little-endian");
  add(sealed_header(32, uint32_t{1 << 16}), "invalid_field", "field=ordinal value=65536");
  add(sealed_header(36, uint32_t{5}), "invalid_field", "field=align_log2 value=5");
  add(sealed_header(36, uint32_t{17}), "invalid_field", "field=align_log2 value=17");
  add(sealed_header(40, uint64_t{4096}), "invalid_field", "field=file_bytes value=4096");
  add(sealed_header(40, uint64_t{1} << 63), "invalid_field", "field=file_bytes");
  add(sealed_header(48, uint64_t{0}), "invalid_field", "field=slices value=0");
  add(sealed_header(48, uint64_t{(1 << 21) + 1}), "invalid_field", "field=slices");
  add(sealed_header(56, uint64_t{1'000'000'000'000}), "invalid_field", "field=step");
  add(sealed_header(64, uint8_t{1}), "invalid_field", "field=zeros value=1");
  add(sealed_header(4087, uint8_t{2}), "invalid_field", "offset=4087 field=zeros");
  add(swapped_header(), "format", "found=big-endian");
  const std::string good = encode_shard_header(sample_header());
  add("", "corrupt", "offset=0");
  add(good.substr(0, 4095), "corrupt", "offset=4095");
  add(std::string(4096, '\0'), "corrupt", "its writer never ended it");
  add('\0' + good, "corrupt", "its writer never ended it");
  return files;
}

}  // namespace plait
