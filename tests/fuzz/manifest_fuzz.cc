// Manifests from hostile bytes: decoding either throws plait::Error, or gives values that are
// written and read again without a difference. The first byte says what the others are: a whole
// file, a payload that gets a right trailer, or changes of a valid payload, each of three bytes
// (place, value), which reach the meaning behind the structure.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/trailer.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

void require(bool condition) {
  if (!condition) std::terminate();
}

Manifest sample_manifest() {
  Manifest m;
  m.format.writer = "plait";
  m.format.numerics = "device=cpu\n";
  m.layout = {2, 1, 1, 1, 1, false, {2}};
  m.config = {{"model.hidden", "64"}, {"model.layers", "2"}};
  m.progress = {3, 3, 12, 768, 1, 1, 1e-3};
  m.scaler = {true, 1024, 5, -1};
  m.random = {"philox", 1, 7};
  m.data = {"feistel", 1, 9, {{1, 2, 3, 4, -5}, {6, 7, 8, 9, 10}}};
  m.groups = {{"decay", "adamw", 1, .1, .9, .95, 1e-8}, {"rest", "adamw", 1, 0, .9, .95, 1e-8}};
  m.tensors = {{"a", {4, 3}, {{StateKind::kParam, DType::kFloat32, false, 12, 1}}, 0},
               {"b",
                {2, 3, 4},
                {{StateKind::kMaster, DType::kFloat32, false, 24, 2},
                 {StateKind::kMoment1, DType::kBFloat16, true, 24, 3}},
                1}};
  m.files = {{0, 0, 0, 0, 5000, 400, {1, 2}}, {1, 1, 0, 0, 5000, 400, {3, 4}}};
  m.properties = {{"a", SavedProperty::Type::kInteger, 5, 0, ""},
                  {"b", SavedProperty::Type::kReal, 0, 1.5, ""},
                  {"c", SavedProperty::Type::kText, 0, 0, "text"}};
  seal_identity(&m);
  return m;
}

std::string changed_sample(const std::string& changes) {
  std::string bytes = encode_manifest(sample_manifest(), 1);
  bytes.resize(bytes.size() - static_cast<size_t>(kTrailerBytes));
  for (size_t i = 0; i + 3 <= changes.size(); i += 3) {
    uint16_t place = 0;
    std::memcpy(&place, changes.data() + i, sizeof place);
    bytes[place % bytes.size()] = changes[i + 2];
  }
  return bytes;
}

void read_manifest(const std::string& file) {
  uint64_t sequence = 0;
  const Manifest manifest = decode_manifest(file, "MANIFEST", &sequence);
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    require(manifest.find(manifest.tensors[i].name) == static_cast<int64_t>(i));
  }
  const std::string bytes = encode_manifest(manifest, sequence);
  uint64_t again = 0;
  require(encode_manifest(decode_manifest(bytes, "again", &again), sequence) == bytes);
  require(again == sequence);
}

}  // namespace
}  // namespace plait

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 > 1) bytes = plait::changed_sample(bytes);
  if (data[0] % 4 > 0) plait::append_trailer(&bytes, data[0]);
  try {
    plait::read_manifest(bytes);
  } catch (const plait::Error& error) {
    const std::string& word = error.word();
    plait::require(word == "invalid_field" || word == "format" ||
                   (word == "corrupt" && data[0] % 4 == 0));
  }
  return 0;
}
