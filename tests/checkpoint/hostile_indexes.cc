// Indexes with a right trailer, named by the manifest, that lie.
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/checkpoint/format_fixture.h"
#include "tests/checkpoint/hostile_corpus.h"

namespace plait {
namespace {

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

std::vector<BadSlice> bad_slices() {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  return {
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
}

HostileFile hostile_index(std::string bytes, const std::string& name, const std::string& word,
                          std::vector<std::string> parts) {
  parts.push_back("path=s00003.idx");
  return {HostileFile::Kind::kIndex, name, std::move(bytes), word, std::move(parts)};
}

/// Whole indexes of something else.
std::vector<HostileFile> other_indexes(const IndexedStep& step) {
  std::vector<HostileFile> files;
  const auto add = [&](const char* name, void (*change)(ShardIndex*), const char* word,
                       std::vector<std::string> parts) {
    ShardIndex index = step.index;
    change(&index);
    Hash128 hash;
    files.push_back(hostile_index(encode_index(index, &hash), name, word, std::move(parts)));
  };
  add("another save", [](ShardIndex* i) { i->save_id.high ^= 1; }, "save_id_mismatch",
      {"got=", "want="});
  add("another save, low", [](ShardIndex* i) { i->save_id.low ^= 1; }, "save_id_mismatch", {});
  add("another shard", [](ShardIndex* i) { i->ordinal = 5; }, "invalid_field",
      {"field=ordinal value=5 limit=3"});
  add("no shard of the step", [](ShardIndex* i) { i->ordinal = 65535; }, "invalid_field",
      {"field=ordinal value=65535 limit=3"});
  add("another major", [](ShardIndex* i) { i->major = 1; }, "format", {"found=1 supported=0"});
  add("another major, 65535", [](ShardIndex* i) { i->major = 65535; }, "format", {"found=65535"});
  add("a later minor", [](ShardIndex* i) { i->minor = 2; }, "invalid_field",
      {"field=minor value=2 limit=1"});
  files.push_back(hostile_index(OpenBuffer(encode_manifest(step.manifest, 1)).sealed(0),
                                "a manifest", "invalid_field",
                                {"field=identifier value=PLCM limit=PLSI"}));
  files.push_back(hostile_index(OpenBuffer(step.bytes).sealed(9), "a sequence", "invalid_field",
                                {"field=sequence value=9 limit=0"}));
  return files;
}

}  // namespace

std::vector<HostileFile> hostile_indexes() {
  const IndexedStep step;
  std::vector<HostileFile> files = other_indexes(step);
  for (const BadSlice& row : bad_slices()) {
    OpenBuffer buffer(step.bytes);
    row.change(buffer);
    const std::string field = row.field;
    files.push_back(hostile_index(buffer.sealed(0), field + ": " + row.why, "invalid_field",
                                  {"field=" + field, "value=", "limit=", row.why}));
  }
  return files;
}

}  // namespace plait
