// Steps that are not well: every fault is found, and named where it is.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "checkpoint/format/shard_header.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/store_fixture.h"
#include "tests/support/memory_files.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

using test::kIsSanitized;

void flip_bit(std::string* bytes, int64_t bit) {
  (*bytes)[static_cast<size_t>(bit / 8)] ^= static_cast<char>(1 << (bit % 8));
}

int64_t byte_count(const std::string& bytes) { return static_cast<int64_t>(bytes.size()); }

/// Word of the error of `action`, empty where there is none.
template <class Action>
std::string word_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.word();
  }
  return "";
}

bool is_refusal(const std::string& word) {
  static const std::set<std::string> kWords = {"corrupt", "invalid_field", "save_id_mismatch",
                                               "format"};
  return kWords.count(word) == 1;
}

TEST_CASE("every bit of MANIFEST and of an index is found when it is flipped") {
  MemoryStep step;
  std::vector<std::string> names = {"MANIFEST"};
  for (const SavedFile& file : step.manifest.files) names.push_back(index_name(file.ordinal));
  for (const std::string& name : names) {
    std::string& bytes = step.bytes(name);
    int64_t missed = 0;
    for (int64_t bit = 0; bit < byte_count(bytes) * 8; bit += kIsSanitized ? 13 : 1) {
      flip_bit(&bytes, bit);
      missed += !is_refusal(word_of([&] { step.open(); }));
      flip_bit(&bytes, bit);
    }
    INFO(name);
    CHECK(missed == 0);
  }
  step.read_all(*step.open());
}

TEST_CASE("MANIFEST and an index are refused at every shorter length, and a longer one") {
  MemoryStep step;
  for (const std::string& name : {std::string("MANIFEST"), index_name(0)}) {
    std::string& bytes = step.bytes(name);
    const std::string whole = bytes;
    int64_t missed = 0;
    for (size_t length = 0; length < whole.size(); length += kIsSanitized ? 5 : 1) {
      bytes = whole.substr(0, length);
      missed += !is_refusal(word_of([&] { step.open(); }));
    }
    bytes = whole + '\0';
    missed += !is_refusal(word_of([&] { step.open(); }));
    bytes = whole;
    CHECK(missed == 0);
  }
}

TEST_CASE("every flip in a used byte of a shard is found by a read and named") {
  MemoryStep step;
  const auto reader = step.open();
  int64_t cases = 0;
  for (size_t file = 0; file < reader->indexes().size(); ++file) {
    const std::string name = shard_name(reader->manifest().files[file].ordinal);
    std::string& bytes = step.bytes(name);
    for (const Slice& slice : reader->indexes()[file].slices) {
      for (int64_t bit = 0; bit < slice.bytes * 8; bit += kIsSanitized ? 97 : 3) {
        flip_bit(&bytes, slice.position * 8 + bit);
        StorePiece wanted{0, slice.tensor, slice.kind, slice.dtype, slice.box, ""};
        std::vector<StorePiece> pieces = {wanted};
        std::vector<ReadTarget> targets = store_targets(&pieces);
        Error found("invariant", "no error");
        try {
          reader->read(targets);
        } catch (const Error& error) {
          found = error;
        }
        flip_bit(&bytes, slice.position * 8 + bit);
        const std::string message = found.message() + " ";
        const bool is_named =
            message.find("file=" + name + " ") != std::string::npos &&
            message.find("offset=" + std::to_string(slice.position) + " ") != std::string::npos &&
            message.find("tensor=" + step.manifest.tensors[slice.tensor].name + " ") !=
                std::string::npos &&
            message.find(std::string("kind=") + state_kind_name(slice.kind) + " ") !=
                std::string::npos;
        if (found.word() != "corrupt" || !is_named) FAIL(message);
        ++cases;
      }
    }
  }
  CHECK(cases > 100);
  step.read_all(*reader);
}

TEST_CASE("flips that nobody reads harm nobody") {
  MemoryStep step;
  const auto reader = step.open();
  for (const SavedFile& file : step.manifest.files) {
    std::string& bytes = step.bytes(shard_name(file.ordinal));
    for (size_t i = 0; i < static_cast<size_t>(kShardHeaderBytes); ++i) bytes[i] ^= 0x55;
  }
  step.read_all(*reader);
  CHECK(reader->verify(false).empty());
  CHECK(reader->verify(true).size() >= step.manifest.files.size());
}

TEST_CASE("a shard that is cut, at every border of a slice") {
  MemoryStep step;
  const std::string name = shard_name(step.manifest.files[0].ordinal);
  std::string& bytes = step.bytes(name);
  const std::string whole = bytes;
  const std::vector<Slice> slices = step.open()->indexes()[0].slices;
  std::set<int64_t> lengths = {0, 1, 8, kShardHeaderBytes};
  for (const Slice& slice : slices) {
    for (const int64_t border : {slice.position, slice.position + slice.bytes}) {
      lengths.insert({border - 1, border, border + 1});
    }
  }
  const auto reader = step.open();  // from before the cut: the file shrinks under it
  for (const int64_t length : lengths) {
    if (length == byte_count(whole)) continue;
    INFO("length " << length);
    bytes = (whole + '\0').substr(0, static_cast<size_t>(length));
    require_error([&] { step.open(); }, "corrupt",
                  {"file=" + name, "got=" + std::to_string(length)});
    if (length < byte_count(whole)) {
      require_error([&] { step.read_all(*reader); }, "corrupt", {"file=" + name, "tensor="});
      const std::vector<Damage> damage = reader->verify(false);
      REQUIRE(!damage.empty());
      CHECK(damage[0].file == name);
    }
    bytes = whole;
  }
  step.read_all(*reader);
}

TEST_CASE("missing, swapped and duplicated files") {
  MemoryStep step;
  REQUIRE(step.manifest.files.size() == 3);
  for (const SavedFile& file : step.manifest.files) {
    for (const std::string& name : {shard_name(file.ordinal), index_name(file.ordinal)}) {
      const std::string kept = step.bytes(name);
      step.files.unlink("step/" + name);
      require_error([&] { step.open(); }, "missing_shard",
                    {"ordinal=" + std::to_string(file.ordinal), "file=" + name});
      step.files.put("step/" + name, kept);
    }
  }
  const auto refused = [&] { return is_refusal(word_of([&] { step.read_all(*step.open()); })); };
  for (const auto& name : {shard_name, index_name}) {
    std::swap(step.bytes(name(0)), step.bytes(name(2)));
    CHECK(refused());
    std::swap(step.bytes(name(0)), step.bytes(name(2)));
    const std::string kept = step.bytes(name(1));
    step.bytes(name(1)) = step.bytes(name(0));
    CHECK(refused());
    step.bytes(name(1)) = kept;
  }
  step.read_all(*step.open());
}

TEST_CASE("shards and indexes of another save") {
  // Values differ, sizes do not.
  const auto kind = StateKind::kMaster;
  const auto make = [&](MemoryFiles* files, int64_t step, char value) {
    const Manifest fields =
        store_manifest({store_tensor("x", {6, 5}, {{kind, DType::kFloat32}})}, 1, step);
    std::vector<StorePiece> pieces = store_whole(fields);
    pieces[0].bytes[17] = value;
    return write_store(*files, "step", fields, pieces);
  };
  MemoryFiles files, others;
  const Manifest mine = make(&files, 7, 1), other = make(&others, 8, 2);
  REQUIRE(mine.save_id != other.save_id);
  const std::string path = "step/" + index_name(0), shard = "step/" + shard_name(0);
  const std::string index = files.at(path).bytes;
  files.put(path, others.at(path).bytes);
  require_error([&] { StepReader::open(files, "step"); }, "save_id_mismatch");
  files.put(path, index);
  files.put(shard, others.at(shard).bytes);
  const auto reader = StepReader::open(files, "step");  // of the same size
  std::vector<float> values(30);
  require_error([&] { reader->read_whole(0, kind, values.data()); }, "save_id_mismatch",
                {"file=" + shard_name(0)});
  CHECK(!reader->verify(false).empty());
  files.put(shard, others.at(shard).bytes + "tail");
  require_error([&] { StepReader::open(files, "step"); }, "save_id_mismatch");
}

TEST_CASE("a manifest that contradicts its slices") {
  MemoryStep step;
  const auto write = [&](const Manifest& manifest) {
    step.files.put("step/MANIFEST", encode_manifest(manifest, 1));
  };
  Manifest changed = step.manifest;
  changed.tensors[2].states[0].digest ^= 1;
  write(changed);
  const auto reader = step.open();
  std::vector<char> data(4096);
  require_error([&] { reader->read_whole(2, StateKind::kParam, data.data()); }, "digest_mismatch",
                {"tensor=c.cube", "kind=param"});
  const std::vector<Damage> damage = reader->verify(false);
  REQUIRE(damage.size() >= 2);  // the digest, and the identity that does not follow from it
  for (const Damage& one : damage) CHECK(one.file == "MANIFEST");
  changed = step.manifest;
  changed.progress.tokens += 1;
  write(changed);
  CHECK(step.open()->verify(false).size() == 2);
  changed = step.manifest;
  changed.tensors[4].states[0].is_zero = true;
  write(changed);
  const std::vector<Damage> zero = step.open()->verify(false);
  REQUIRE(!zero.empty());
  CHECK(zero[0].what.find("e.counts") != std::string::npos);
}

TEST_CASE("slices that leave holes or lie over each other are refused when a step is opened") {
  MemoryFiles files;
  const auto kind = StateKind::kMaster;
  const Manifest fields =
      store_manifest({store_tensor("x", {7, 11}, {{kind, DType::kFloat32}})}, 2);
  std::vector<StorePiece> pieces;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    Box box = Box::whole({7, 11});
    box.first[0] = rank * 4;
    box.size[0] = 4 - rank;
    pieces.push_back({rank, 0, kind, DType::kFloat32, box,
                      store_values(0, kind, DType::kFloat32, box, {7, 11})});
  }
  const Manifest written = write_store(files, "step", fields, pieces);
  const ShardIndex index = StepReader::open(files, "step")->indexes()[1];
  const auto write = [&](int64_t first, int64_t rows) {
    ShardIndex changed = index;
    changed.slices[0].box.first[0] = first;
    changed.slices[0].box.size[0] = rows;
    changed.slices[0].bytes = rows * 44;
    Manifest manifest = written;
    const std::string text = encode_index(changed, &manifest.files[1].idx_hash);
    manifest.files[1].idx_bytes = byte_count(text);
    files.put("step/" + index_name(1), text);
    files.put("step/MANIFEST", encode_manifest(manifest, 1));
  };
  const auto open = [&] { StepReader::open(files, "step"); };
  write(4, 2);
  require_error(open, "invalid_field", {"tensor=x", "kind=master", "value=[6:7,0:1]"});
  write(5, 2);
  require_error(open, "invalid_field", {"tensor=x", "kind=master", "value=[4:5,0:1]"});
  write(3, 3);
  require_error(open, "invalid_field", {"tensor=x", "kind=master", "value=[3:4,0:11]"});
  write(4, 3);
  require_readable(*StepReader::open(files, "step"), pieces);
}

}  // namespace
}  // namespace plait
