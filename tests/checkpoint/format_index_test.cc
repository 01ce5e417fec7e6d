// Indexes of shards there and back, and damage.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "tests/checkpoint/format_fixture.h"
#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

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

TEST_CASE("an index that is not the one that the manifest names says of which save it is") {
  const IndexedStep step;
  ShardIndex other = step.index;
  Hash128 hash;
  other.save_id.high ^= 1;
  require_error([&] { step.read(encode_index(other, &hash)); }, "save_id_mismatch",
                {"path=s00003.idx", "got=", "want="});
  other = step.index;
  other.slices.back().digest ^= 1;
  require_error([&] { step.read(encode_index(other, &hash)); }, "corrupt",
                {"path=s00003.idx", "offset=", "got=", "want="});
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
