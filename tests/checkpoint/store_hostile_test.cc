// Files that lie and are sealed all the same: every hash is right, the meaning is not. Whatever
// they hold, a reader ends with a value or with one of a few errors.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <set>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/store_fixture.h"
#include "tests/support/memory_files.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

constexpr uint64_t kOddNumbers[] = {0,
                                    1,
                                    2,
                                    5,
                                    255,
                                    256,
                                    4095,
                                    4096,
                                    4097,
                                    0x7FFFFFFF,
                                    0x80000000,
                                    0xFFFFFFFF,
                                    uint64_t{1} << 32,
                                    uint64_t{1} << 61,
                                    0x7FFFFFFFFFFFFFFF,
                                    0x8000000000000000,
                                    0xFFFFFFFFFFFFF000,
                                    0xFFFFFFFFFFFFFFFF};

uint64_t below(std::mt19937_64* random, uint64_t limit) { return (*random)() % limit; }

/// One change of a payload that leaves its length: a bit, a number, a copy of another place, two
/// places swapped.
void mutate(std::string* payload, std::mt19937_64* random) {
  const uint64_t size = payload->size();
  const size_t width = size_t{1} << below(random, 4);
  const size_t at = below(random, size / width) * width;
  const size_t from = below(random, size / width) * width;
  char* data = payload->data();
  switch (below(random, 4)) {
    case 0:
      data[at] = static_cast<char>(data[at] ^ (1 << below(random, 8)));
      return;
    case 1: {
      const uint64_t number = kOddNumbers[below(random, std::size(kOddNumbers))];
      std::memcpy(data + at, &number, width);
      return;
    }
    case 2:
      std::memmove(data + at, data + from, width);
      return;
    default: {
      std::string kept(data + at, width);
      std::memcpy(data + at, data + from, width);
      std::memcpy(data + from, kept.data(), width);
    }
  }
}

/// A small step in memory, whose files are changed and sealed again.
struct LyingStep {
  MemoryFiles files;
  Manifest manifest;
  std::map<std::string, std::string> payloads;  ///< of MANIFEST and the indexes

  LyingStep() {
    std::mt19937_64 random(21);
    const Manifest fields = store_manifest(store_tensors(), 3);
    manifest = write_store(files, "step", fields, store_pieces(fields, 3, &random));
    keep("MANIFEST");
    for (const SavedFile& file : manifest.files) keep(index_name(file.ordinal));
  }
  void keep(const std::string& name) {
    const std::string path = "step/" + name;
    payloads[name] = std::string(open_sealed(files.at(path).bytes, path).payload);
  }
  Hash128 seal(const std::string& name, std::string payload, uint64_t sequence) {
    const Hash128 hash = append_trailer(&payload, sequence);
    files.put("step/" + name, std::move(payload));
    return hash;
  }
};

/// Reads all that the step says it has and is not too large; whether values are those of the
/// fixture.
bool reads_as_written(const StepReader& reader) {
  bool is_equal = true;
  for (size_t t = 0; t < reader.manifest().tensors.size(); ++t) {
    const SavedTensor& tensor = reader.manifest().tensors[t];
    for (const TensorState& state : tensor.states) {
      if (tensor.shape.elements() > 1 << 16) continue;
      std::string bytes(static_cast<size_t>(tensor.shape.elements() * dtype_size(state.dtype)),
                        '\xA5');
      reader.read_whole(static_cast<int64_t>(t), state.kind, bytes.data());
      is_equal =
          is_equal && bytes == store_values(static_cast<uint32_t>(t), state.kind, state.dtype,
                                            Box::whole(tensor.shape), tensor.shape);
    }
  }
  return is_equal;
}

TEST_CASE("an index that lies and is sealed: nothing wrong is ever taken for right") {
  LyingStep step;
  const std::set<std::string> words = {"invalid_field", "corrupt", "save_id_mismatch", "format",
                                       "digest_mismatch"};
  std::mt19937_64 random(31);
  std::map<std::string, int64_t> counts;
  for (int round = 0; round < (test::kIsSanitized ? 1500 : 30'000); ++round) {
    Manifest manifest = step.manifest;
    SavedFile& file = manifest.files[below(&random, manifest.files.size())];
    const std::string name = index_name(file.ordinal);
    std::string payload = step.payloads[name];
    for (uint64_t n = 1 + below(&random, 2); n > 0; --n) mutate(&payload, &random);
    file.idx_hash = step.seal(name, payload, 0);
    step.files.put("step/MANIFEST", encode_manifest(manifest, 1));
    std::string word = "right";
    try {
      const auto reader = StepReader::open(step.files, "step");
      if (!reads_as_written(*reader)) word = "wrong";
    } catch (const Error& error) {
      word = error.word();
      INFO(error.message());
      REQUIRE(words.count(word) == 1);
    }
    REQUIRE(word != "wrong");
    ++counts[word];
    step.seal(name, step.payloads[name], 0);
  }
  for (const char* word : {"invalid_field", "corrupt", "right"}) {
    INFO(word);
    CHECK(counts[word] > 0);
  }
}

TEST_CASE("two slices that change places, hashes and all, are found by the digest alone") {
  MemoryFiles files;
  const auto kind = StateKind::kMaster;
  const Shape shape{4, 6};
  const Manifest fields = store_manifest({store_tensor("x", shape, {{kind, DType::kFloat32}})}, 1);
  std::vector<StorePiece> pieces;
  for (const int64_t row : {0, 2}) {
    Box box = Box::whole(shape);
    box.first[0] = row;
    box.size[0] = 2;
    pieces.push_back(
        {0, 0, kind, DType::kFloat32, box, store_values(0, kind, DType::kFloat32, box, shape)});
  }
  Manifest manifest = write_store(files, "step", fields, pieces);
  ShardIndex index = StepReader::open(files, "step")->indexes()[0];
  Slice &one = index.slices[0], &other = index.slices[1];
  std::string& bytes = files.at("step/" + shard_name(0)).bytes;
  std::swap_ranges(bytes.begin() + one.position, bytes.begin() + one.position + one.bytes,
                   bytes.begin() + other.position);
  std::swap(one.hash, other.hash);
  std::string text = encode_index(index, &manifest.files[0].idx_hash);
  files.put("step/" + index_name(0), std::move(text));
  files.put("step/MANIFEST", encode_manifest(manifest, 1));
  const auto reader = StepReader::open(files, "step");
  std::vector<float> values(24);
  require_error([&] { reader->read_whole(0, kind, values.data()); }, "digest_mismatch",
                {"tensor=x", "kind=master"});
  CHECK(reader->verify(false).size() == 2);  // both slices against their index
}

TEST_CASE("a manifest that lies and is sealed ends in an error or in a step") {
  LyingStep step;
  const std::set<std::string> words = {"invalid_field", "corrupt",         "save_id_mismatch",
                                       "format",        "digest_mismatch", "missing_shard"};
  std::mt19937_64 random(32);
  std::map<std::string, int64_t> counts;
  for (int round = 0; round < (test::kIsSanitized ? 2000 : 30'000); ++round) {
    std::string payload = step.payloads["MANIFEST"];
    for (uint64_t n = 1 + below(&random, 3); n > 0; --n) mutate(&payload, &random);
    step.seal("MANIFEST", payload, below(&random, 3));
    std::string word = "opened";
    try {
      const auto reader = StepReader::open(step.files, "step");
      if (round % 4 == 0) reader->verify(true);
      if (round % 4 == 1) compare_steps(*reader, *reader);
      reads_as_written(*reader);
    } catch (const Error& error) {
      word = error.word();
      INFO(error.message());
      REQUIRE(words.count(word) == 1);
    }
    ++counts[word];
  }
  CHECK(counts["invalid_field"] > 0);
  CHECK(counts["opened"] > 0);
}

}  // namespace
}  // namespace plait
