// Indexes of shards from hostile bytes, for a manifest that names them: decoding either throws
// plait::Error, or gives slices that lie inside their tensors and the shard, apart from each other,
// and are written and read again without a difference. The first byte is as in manifest_fuzz.cc.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

void require(bool condition) {
  if (!condition) std::terminate();
}

Manifest sample_step() {
  Manifest m;
  m.tensors = {{"a", {4, 3}, {{StateKind::kParam, DType::kFloat32, false, 12, 1}}, 0},
               {"b",
                {2, 3, 4, 5},
                {{StateKind::kMaster, DType::kFloat32, false, 120, 2},
                 {StateKind::kMoment1, DType::kBFloat16, false, 120, 3}},
                0}};
  m.files = {{0, 0, 0, 0, 1 << 20, 400, {}}};
  seal_identity(&m);
  return m;
}

std::string sample_index(const Manifest& manifest) {
  ShardIndex index;
  index.save_id = manifest.save_id;
  int64_t position = kShardHeaderBytes;
  const auto add = [&](uint32_t tensor, StateKind kind, DType dtype, const Box& box) {
    const int64_t bytes = box.elements() * dtype_size(dtype);
    index.slices.push_back({tensor, kind, dtype, box, position, bytes, 1, 2});
    position = (position + bytes + 4095) / 4096 * 4096;
  };
  add(0, StateKind::kParam, DType::kFloat32, {{0, 0}, {2, 3}, 2});
  add(0, StateKind::kParam, DType::kFloat32, {{2, 1}, {2, 2}, 2});
  add(1, StateKind::kMaster, DType::kFloat32, Box::whole({2, 3, 4, 5}));
  add(1, StateKind::kMoment1, DType::kBFloat16, {{1, 1, 1, 1}, {1, 2, 3, 4}, 4});
  Hash128 hash;
  return encode_index(index, &hash);
}

std::string changed_index(const Manifest& manifest, const std::string& changes) {
  std::string bytes = sample_index(manifest);
  bytes.resize(bytes.size() - static_cast<size_t>(kTrailerBytes));
  for (size_t i = 0; i + 3 <= changes.size(); i += 3) {
    uint16_t place = 0;
    std::memcpy(&place, changes.data() + i, sizeof place);
    bytes[place % bytes.size()] = changes[i + 2];
  }
  return bytes;
}

void require_sound(const Slice& slice, const Manifest& manifest, int64_t end) {
  require(slice.tensor < manifest.tensors.size());
  const Shape& shape = manifest.tensors[slice.tensor].shape;
  require(manifest.state(slice.tensor, slice.kind)->dtype == slice.dtype);
  require(slice.box.dims == shape.dims());
  for (int d = 0; d < shape.dims(); ++d) {
    const auto dim = static_cast<size_t>(d);
    require(slice.box.first[dim] >= 0 && slice.box.size[dim] > 0);
    require(slice.box.first[dim] + slice.box.size[dim] <= shape[d]);
  }
  require(slice.bytes == slice.box.elements() * dtype_size(slice.dtype));
  require(slice.position >= end && slice.position % 4096 == 0);
  require(slice.position + slice.bytes <= manifest.files[0].plt_bytes);
}

void read_index(const std::string& file, Manifest* manifest) {
  SavedFile* named = manifest->files.data();
  const ShardIndex index = decode_index(file, "s00000.idx", *manifest, *named);
  int64_t end = kShardHeaderBytes;
  for (const Slice& slice : index.slices) {
    require_sound(slice, *manifest, end);
    end = slice.position + slice.bytes;
  }
  const std::string bytes = encode_index(index, &named->idx_hash);
  named->idx_bytes = static_cast<int64_t>(bytes.size());
  Hash128 again;
  require(encode_index(decode_index(bytes, "again", *manifest, *named), &again) == bytes);
  require(again == named->idx_hash);
}

void read_input(uint8_t kind, std::string bytes) {
  Manifest manifest = sample_step();
  if (kind > 1) bytes = changed_index(manifest, bytes);
  if (kind > 0) {
    manifest.files[0].idx_hash = append_trailer(&bytes, 0);
    manifest.files[0].idx_bytes = static_cast<int64_t>(bytes.size());
  }
  try {
    read_index(bytes, &manifest);
  } catch (const Error& error) {
    const std::string& word = error.word();
    require(word == "invalid_field" || word == "format" || word == "save_id_mismatch" ||
            (word == "corrupt" && kind == 0));
  }
}

}  // namespace
}  // namespace plait

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  plait::read_input(data[0] % 4, std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
