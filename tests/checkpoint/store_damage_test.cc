// Steps that are not well: every fault is found, and named where it is.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "checkpoint/format/shard_header.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/store_fixture.h"
#include "tests/support/memory_files.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

using test::kIsSanitized;

/// A small step in memory, and all of it as targets.
struct DamagedStep {
  MemoryFiles files;
  Manifest manifest;
  std::vector<StorePiece> pieces;

  explicit DamagedStep(int64_t ranks = 3, uint64_t seed = 11) {
    std::mt19937_64 random(seed);
    const Manifest fields = store_manifest(store_tensors(), ranks);
    pieces = store_pieces(fields, ranks, &random);
    manifest = write_store(files, "step", fields, pieces);
  }
  std::string& bytes(const std::string& name) { return files.at("step/" + name).bytes; }
  std::unique_ptr<StepReader> open() { return StepReader::open(files, "step"); }
  void read_all(const StepReader& reader) {
    std::vector<StorePiece> wanted = pieces;
    std::vector<ReadTarget> targets = store_targets(&wanted);
    reader.read(targets);
  }
};

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

/// Copies a step in memory to a directory of the running system.
void put_on_disk(MemoryFiles& files, const TempDirectory& directory, const std::string& name) {
  for (const std::string& path : files.names()) {
    if (path.rfind("step/", 0) == 0) directory.write(name + path.substr(4), files.at(path).bytes);
  }
}

TEST_CASE("every bit of MANIFEST and of an index is found when it is flipped") {
  DamagedStep step;
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
  DamagedStep step;
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
  DamagedStep step;
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

TEST_CASE("every flip anywhere in a shard is found by full verification, at its place") {
  DamagedStep step(2);
  const TempDirectory directory;  // for the list of names: memory has no directories
  put_on_disk(step.files, directory, "step");
  const auto reader = StepReader::open(posix_env().files, directory.path("step"));
  REQUIRE(reader->verify(true).empty());
  const std::string name = shard_name(reader->manifest().files[0].ordinal);
  const std::vector<Slice>& slices = reader->indexes()[0].slices;
  const std::unique_ptr<File> shard =
      posix_env().files.open_or_create(directory.path("step/" + name));
  std::mt19937_64 random(1);
  int64_t in_slices = 0, in_gaps = 0;
  for (int round = 0; round < (kIsSanitized ? 200 : 4000); ++round) {
    const auto place = static_cast<int64_t>(random() % static_cast<uint64_t>(shard->size()));
    char old = 0;
    shard->pread(&old, 1, place);
    const char flipped = static_cast<char>(old ^ (1 << (random() % 8)));
    shard->pwrite(&flipped, 1, place);
    const std::vector<Damage> damage = reader->verify(true);
    shard->pwrite(&old, 1, place);
    const auto slice = std::find_if(slices.begin(), slices.end(), [&](const Slice& one) {
      return place >= one.position && place < one.position + one.bytes;
    });
    REQUIRE(!damage.empty());
    CHECK(damage[0].file == name);
    if (place < kShardHeaderBytes) continue;
    REQUIRE(damage.size() == 1);
    CHECK(damage[0].offset == (slice == slices.end() ? place : slice->position));
    ++(slice == slices.end() ? in_gaps : in_slices);
  }
  CHECK(in_gaps > 0);
  CHECK(in_slices > 0);
  CHECK(reader->verify(true).empty());
}

TEST_CASE("flips that nobody reads harm nobody") {
  DamagedStep step;
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
  DamagedStep step;
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
  DamagedStep step;
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

TEST_CASE("all damage is collected, in the order of files") {
  DamagedStep step;
  const TempDirectory directory;
  put_on_disk(step.files, directory, "step");
  directory.write("step/INFO.json", "{}");
  const auto reader = StepReader::open(posix_env().files, directory.path("step"));
  CHECK(reader->verify(true).empty());
  directory.write("step/s00009.plt", "who");
  directory.write("step/core", "what");
  CHECK(reader->verify(false).empty());
  const Slice& slice = reader->indexes()[1].slices[0];
  const std::string name = shard_name(reader->manifest().files[1].ordinal);
  const std::unique_ptr<File> shard =
      posix_env().files.open_or_create(directory.path("step/" + name));
  const std::string poison = "\x5A";
  shard->pwrite(poison.data(), 1, 16);  // the save id in the header
  shard->pwrite(poison.data(), 1, slice.position);
  shard->pwrite(poison.data(), 1, slice.position + slice.bytes);
  const std::vector<Damage> damage = reader->verify(true);
  REQUIRE(damage.size() == 5);
  CHECK(damage[0].file == "core");
  CHECK(damage[1].file == name);
  CHECK(damage[1].offset == 0);
  CHECK(damage[2].offset == slice.position);
  CHECK(damage[3].offset == slice.position + slice.bytes);
  CHECK(damage[4].file == "s00009.plt");
  for (const Damage& one : damage) CHECK(one.what.find('\n') == std::string::npos);
}

TEST_CASE("a manifest that contradicts its slices") {
  DamagedStep step;
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

TEST_CASE("links, FIFOs and directories in place of files") {
  DamagedStep step(1);
  for (const std::string& name : {std::string("MANIFEST"), index_name(0), shard_name(0)}) {
    for (const int kind : {0, 1, 2, 3}) {
      INFO(name << " " << kind);
      const TempDirectory directory;
      put_on_disk(step.files, directory, "step");
      const std::string path = directory.path("step/" + name), other = directory.path("other");
      REQUIRE(::rename(path.c_str(), other.c_str()) == 0);
      if (kind == 0) REQUIRE(::symlink(other.c_str(), path.c_str()) == 0);
      if (kind == 1) REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
      if (kind == 2) REQUIRE(::mkdir(path.c_str(), 0700) == 0);
      if (kind == 3) REQUIRE(::link(other.c_str(), path.c_str()) == 0);  // nothing wrong with it
      Files& files = posix_env().files;
      const auto open = [&] { step.read_all(*StepReader::open(files, directory.path("step"))); };
      if (kind == 3) {
        open();
      } else {
        require_error(open, "invalid_file");
      }
    }
  }
}

TEST_CASE("a shard is cut under a reader that has it open") {
  DamagedStep step(1);
  const TempDirectory directory;
  put_on_disk(step.files, directory, "step");
  const auto reader = StepReader::open(posix_env().files, directory.path("step"));
  const std::string path = directory.path("step/" + shard_name(0));
  REQUIRE(::truncate(path.c_str(), 5000) == 0);
  require_error([&] { step.read_all(*reader); }, "corrupt", {"offset=5000", "tensor="});
  REQUIRE(::unlink(path.c_str()) == 0);
  require_error([&] { step.read_all(*reader); }, "corrupt", {"offset=5000", "tensor="});
}

}  // namespace
}  // namespace plait
