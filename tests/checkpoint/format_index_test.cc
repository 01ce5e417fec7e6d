// Indexes of shards there and back, damage, and slices that lie.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "tests/checkpoint/format_fixture.h"
#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

/// A step, and the bytes of its second index.
struct IndexedStep {
  Manifest manifest = rich_manifest();
  ShardIndex index = rich_index(&manifest);
  std::string bytes;

  IndexedStep() {
    Hash128 hash;
    bytes = encode_index(index, &hash);
  }
  const SavedFile& file() const { return manifest.files[1]; }
  ShardIndex read(const std::string& data) const {
    return decode_index(data, "s00003.idx", manifest, file());
  }
  /// As if the manifest had named these bytes.
  ShardIndex read_named(const std::string& data) const {
    SavedFile named = file();
    named.idx_hash = open_sealed(data, "s00003.idx").hash;
    named.idx_bytes = static_cast<int64_t>(data.size());
    return decode_index(data, "s00003.idx", manifest, named);
  }
};

TEST_CASE("an index reads back as it was, every field") {
  const IndexedStep step;
  CHECK(describe(step.read(step.bytes)) == describe(step.index));
  Hash128 hash;
  CHECK(encode_index(step.read(step.bytes), &hash) == step.bytes);
  CHECK(hash == step.file().idx_hash);
  CHECK(hash == open_sealed(step.bytes, "f").hash);
  CHECK(open_sealed(step.bytes, "f").sequence == 0);
  CHECK(step.bytes.substr(4, 4) == "PLSI");
}

TEST_CASE("every truncation and every flipped bit of an index is corrupt") {
  Manifest manifest = least_manifest();
  ShardIndex index;
  index.save_id = manifest.save_id;
  Slice slice{0, StateKind::kParam, DType::kFloat32, Box::whole({3}), 4096, 12, 1, 2};
  index.slices.push_back(slice);
  SavedFile& file = manifest.files[0];
  const std::string bytes = encode_index(index, &file.idx_hash);
  file.idx_bytes = static_cast<int64_t>(bytes.size());
  REQUIRE(describe(decode_index(bytes, "i", manifest, file)) == describe(index));
  const auto refuse = [&](const std::string& damaged) {
    require_error([&] { decode_index(damaged, "i", manifest, file); }, "corrupt", {"path=i"});
  };
  for (size_t size = 0; size < bytes.size(); ++size) refuse(bytes.substr(0, size));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    refuse(flipped);
  }
}

TEST_CASE("every flipped bit of an index under a right trailer is refused or read") {
  const IndexedStep step;
  const OpenBuffer whole(step.bytes);
  const std::vector<std::string> words = {"invalid_field", "format", "save_id_mismatch"};
  int read = 0;
  for (size_t bit = 0; bit < whole.payload.size() * 8; ++bit) {
    OpenBuffer flipped = whole;
    flipped.payload[bit / 8] = static_cast<char>(flipped.payload[bit / 8] ^ (1 << bit % 8));
    try {
      Hash128 hash;
      encode_index(step.read_named(flipped.sealed(0)), &hash);
      ++read;
    } catch (const Error& error) {
      INFO(error.message());
      REQUIRE(std::count(words.begin(), words.end(), error.word()) == 1);
    }
  }
  // Hashes and digests of slices may be anything.
  CHECK(read >= static_cast<int>(step.index.slices.size()) * 128);
}

TEST_CASE("an index of another save, another shard or another version is refused") {
  const IndexedStep step;
  ShardIndex other = step.index;
  Hash128 hash;
  other.save_id.high ^= 1;
  require_error([&] { step.read(encode_index(other, &hash)); }, "save_id_mismatch",
                {"path=s00003.idx", "got=", "want="});
  other = step.index;
  other.ordinal = 5;
  require_error([&] { step.read(encode_index(other, &hash)); }, "invalid_field",
                {"field=ordinal value=5 limit=3"});
  other = step.index;
  other.major = 1;
  require_error([&] { step.read(encode_index(other, &hash)); }, "format", {"found=1 supported=0"});
  other = step.index;
  other.minor = 2;
  require_error([&] { step.read(encode_index(other, &hash)); }, "invalid_field",
                {"field=minor value=2 limit=1"});
  other = step.index;
  other.slices.back().digest ^= 1;
  require_error([&] { step.read(encode_index(other, &hash)); }, "corrupt",
                {"path=s00003.idx", "offset=", "got=", "want="});
  require_error([&] { step.read(encode_manifest(step.manifest, 1)); }, "invalid_field",
                {"field=identifier value=PLCM limit=PLSI"});
  const OpenBuffer sequenced(step.bytes);
  require_error([&] { step.read_named(sequenced.sealed(9)); }, "invalid_field",
                {"field=sequence value=9 limit=0"});
}

struct BadSlice {
  const char* field;
  const char* why;
  std::function<void(OpenBuffer&)> change;
};

// Places in a slice.
constexpr size_t kTensorAt = 0, kKindAt = 4, kDTypeAt = 6, kDimsAt = 7, kOffAt = 8, kExtAt = 40,
                 kPositionAt = 72, kBytesAt = 80;

/// Slices 0 and 1 are of a.bias {11} float32, 2 to 7 of a.weight {6, 5}, 8 to 11 of b {2, 3, 4}.
template <class Value>
std::function<void(OpenBuffer&)> poke_slice(uint32_t i, size_t offset, Value value) {
  return [=](OpenBuffer& b) { b.poke(b.index()->slices()->Get(i), offset, value); };
}

TEST_CASE("slices that lie are refused") {
  const IndexedStep step;
  constexpr uint64_t kTop = uint64_t{1} << 63;
  const std::vector<BadSlice> rows = {
      {"save_id", "missing", [](OpenBuffer& b) { b.remove(b.index(), wire::Index::VT_SAVE_ID); }},
      {"slices", "missing", [](OpenBuffer& b) { b.remove(b.index(), wire::Index::VT_SLICES); }},
      {"slices", "without slices",
       [](OpenBuffer& b) { b.poke(b.index()->slices(), 0, uint32_t{0}); }},
      {"buffer", "offsets",
       [](OpenBuffer& b) { b.poke(b.index()->slices(), 0, uint32_t{1 << 21}); }},
      {"buffer", "offsets", [](OpenBuffer& b) { b.poke(b.index()->slices(), 0, UINT32_MAX); }},
      {"slices", "aligned",
       [](OpenBuffer& b) {  // a vector of one slice that begins in the digest of another
         const uint8_t* digest = b.index()->slices()->Data() + 96;
         b.poke(digest, 0, uint32_t{1});
         b.point(b.index(), wire::Index::VT_SLICES, digest);
       }},
      {"slices[2].kind", "no such kind", poke_slice(2, kTensorAt, uint32_t{0})},
      {"slices[13].tensor", "no such tensor", poke_slice(13, kTensorAt, uint32_t{4})},
      {"slices[13].tensor", "value=4294967295", poke_slice(13, kTensorAt, UINT32_MAX)},
      {"slices[0].kind", "limit=1", poke_slice(0, kKindAt, uint16_t{0})},
      {"slices[13].kind", "limit=5", poke_slice(13, kKindAt, uint16_t{6})},
      {"slices[1].kind", "no such kind", poke_slice(1, kKindAt, uint16_t{3})},
      {"slices[0].dtype", "element type", poke_slice(0, kDTypeAt, uint8_t{0})},
      {"slices[0].dtype", "element type", poke_slice(0, kDTypeAt, uint8_t{5})},
      {"slices[0].dtype", "element type", poke_slice(0, kDTypeAt, uint8_t{255})},
      {"slices[0].dtype", "of the manifest", poke_slice(0, kDTypeAt, uint8_t{6})},
      {"slices[0].nbytes", "volume", poke_slice(0, kDTypeAt, uint8_t{3})},
      {"slices[0].ndim", "limit=1", poke_slice(0, kDimsAt, uint8_t{0})},
      {"slices[0].ndim", "limit=4", poke_slice(0, kDimsAt, uint8_t{5})},
      {"slices[0].ndim", "limit=4", poke_slice(0, kDimsAt, uint8_t{255})},
      {"slices[0].ndim", "dims of the tensor", poke_slice(0, kDimsAt, uint8_t{2})},
      {"slices[0].off[0]", "too large", poke_slice(0, kOffAt, kTop)},
      {"slices[0].off[1]", "unused dim", poke_slice(0, kOffAt + 8, uint64_t{1})},
      {"slices[0].off[3]", "unused dim", poke_slice(0, kOffAt + 24, UINT64_MAX)},
      {"slices[0].ext[0]", "limit=1", poke_slice(0, kExtAt, uint64_t{0})},
      {"slices[0].ext[0]", "too large", poke_slice(0, kExtAt, kTop)},
      {"slices[0].ext[0]", "volume of a box", poke_slice(0, kExtAt, kTop - 1)},
      {"slices[0].ext[1]", "unused dim", poke_slice(0, kExtAt + 8, uint64_t{0})},
      {"slices[0].ext[3]", "unused dim", poke_slice(0, kExtAt + 24, uint64_t{2})},
      {"slices[1].ext[0]", "end of a box", poke_slice(1, kOffAt, kTop - 10)},
      {"slices[1].ext[0]", "beyond its tensor", poke_slice(1, kOffAt, uint64_t{2})},
      {"slices[3].ext[0]", "beyond its tensor", poke_slice(3, kOffAt, uint64_t{2})},
      {"slices[8].ext[2]", "volume of a box", poke_slice(8, kExtAt + 16, kTop / 3 + 1)},
      {"slices[0].nbytes", "volume", poke_slice(0, kBytesAt, uint64_t{3})},
      {"slices[0].nbytes", "volume", poke_slice(0, kBytesAt, uint64_t{0})},
      {"slices[0].nbytes", "too large", poke_slice(0, kBytesAt, UINT64_MAX)},
      {"slices[0].pos", "alignment", poke_slice(0, kPositionAt, uint64_t{4097})},
      {"slices[0].pos", "alignment", poke_slice(0, kPositionAt, uint64_t{4096 + 2048})},
      {"slices[0].pos", "overlap", poke_slice(0, kPositionAt, uint64_t{0})},
      {"slices[1].pos", "overlap", poke_slice(1, kPositionAt, uint64_t{4096})},
      {"slices[13].pos", "beyond the shard", poke_slice(13, kPositionAt, uint64_t{1} << 40)},
      {"slices[13].pos", "beyond the shard", poke_slice(13, kPositionAt, kTop - 4096)},
      {"slices[13].pos", "too large", poke_slice(13, kPositionAt, kTop)},
      {"slices[1].tensor", "ascend",
       [](OpenBuffer& b) {  // the first box twice
         const wire::Slice first = *b.index()->slices()->Get(0);
         wire::Slice second = first;
         std::memcpy(reinterpret_cast<char*>(&second) + kPositionAt,
                     reinterpret_cast<const char*>(b.index()->slices()->Get(1)) + kPositionAt, 8);
         b.poke(b.index()->slices()->Get(1), 0, second);
       }},
      {"slices[3].tensor", "ascend", poke_slice(3, kKindAt, uint16_t{1})},
  };
  for (const BadSlice& row : rows) {
    INFO(row.field << ": " << row.why);
    OpenBuffer buffer(step.bytes);
    row.change(buffer);
    require_error(
        [&] { step.read_named(buffer.sealed(0)); }, "invalid_field",
        {"path=s00003.idx", std::string("field=") + row.field, "value=", "limit=", row.why});
  }
}

TEST_CASE("indexes that no caller may give are faults of the writer") {
  Hash128 hash;
  const auto refuse = [&](const ShardIndex& index, const std::string& field) {
    require_error([&] { encode_index(index, &hash); }, "invariant", {"field=" + field});
  };
  const ShardIndex good = IndexedStep().index;
  const auto changed = [&](void (*change)(ShardIndex*)) {
    ShardIndex index = good;
    change(&index);
    return index;
  };
  refuse(changed([](ShardIndex* i) { i->slices.clear(); }), "slices");
  refuse(changed([](ShardIndex* i) { std::swap(i->slices[0], i->slices[1]); }), "slices[1].pos");
  refuse(changed([](ShardIndex* i) { i->slices[2].box.size[0] = 0; }), "slices[2].ext[0]");
  refuse(changed([](ShardIndex* i) { i->slices[2].box.size[3] = 1; }), "slices[2].ext[3]");
  refuse(changed([](ShardIndex* i) { i->slices[2].box.first[1] = -1; }), "slices[2].off[1]");
  refuse(changed([](ShardIndex* i) { i->slices[2].bytes++; }), "slices[2].nbytes");
  refuse(changed([](ShardIndex* i) { i->slices[2].position++; }), "slices[2].pos");
  refuse(changed([](ShardIndex* i) { i->slices[1] = i->slices[0]; }), "slices[1].pos");
}

}  // namespace
}  // namespace plait
