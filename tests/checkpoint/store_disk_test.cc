// Damage that needs a directory of the running system: what stands in it, and what it holds open.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <map>
#include <utility>

#include "checkpoint/format/shard_header.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/store_fixture.h"
#include "tests/support/fault_files.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

/// Copies a step in memory to a directory of the running system.
void put_on_disk(MemoryFiles& files, const TempDirectory& directory, const std::string& name) {
  for (const std::string& path : files.names()) {
    if (path.rfind("step/", 0) == 0) directory.write(name + path.substr(4), files.at(path).bytes);
  }
}

TEST_CASE("every flip anywhere in a shard is found by full verification, at its place") {
  MemoryStep step(2);
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
  for (int round = 0; round < (test::kIsSanitized ? 200 : 4000); ++round) {
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

TEST_CASE("all damage is collected, in the order of files") {
  MemoryStep step;
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

TEST_CASE("links, FIFOs and directories in place of files") {
  MemoryStep step(1);
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

TEST_CASE("every operation that fails once ends a load with its error, and verification goes on") {
  MemoryStep step;
  const TempDirectory directory;
  put_on_disk(step.files, directory, "step");
  const std::string path = directory.path("step");
  FaultFiles clean(posix_env().files);
  step.read_all(*StepReader::open(clean, path));
  for (const FileOperation kind :
       {FileOperation::kOpen, FileOperation::kRead, FileOperation::kStat, FileOperation::kLock}) {
    REQUIRE(clean.count(kind) > 0);
    for (int64_t nth = 0; nth < clean.count(kind); ++nth) {
      FaultFiles faults(posix_env().files);
      faults.fail(kind, nth, EIO);
      require_error([&] { step.read_all(*StepReader::open(faults, path)); }, "io_error");
      step.read_all(*StepReader::open(faults, path));
    }
  }
  FaultFiles faults(posix_env().files);
  const auto reader = StepReader::open(faults, path);
  const std::string name = shard_name(step.manifest.files[1].ordinal);
  faults.fail(FileOperation::kRead, 0, EIO, name);
  const std::vector<Damage> damage = reader->verify(false);
  REQUIRE(damage.size() == 1);
  CHECK(damage[0].file == name);
  CHECK(damage[0].what.rfind("io_error", 0) == 0);
  CHECK(reader->verify(false).empty());
}

TEST_CASE("a shard is cut under a reader that has it open") {
  MemoryStep step(1);
  const TempDirectory directory;
  put_on_disk(step.files, directory, "step");
  const auto reader = StepReader::open(posix_env().files, directory.path("step"));
  const std::string path = directory.path("step/" + shard_name(0));
  // Behind the first slice, whose tensor has 52 bytes.
  REQUIRE(::truncate(path.c_str(), 5000) == 0);
  const auto refuse = [&] {
    require_error([&] { step.read_all(*reader); }, "corrupt",
                  {"offset=5000", "tensor=a.bias", "kind=moment1", "box=[0:13]"});
  };
  refuse();
  REQUIRE(::unlink(path.c_str()) == 0);
  refuse();
}

TEST_CASE("shards that may be mapped are mapped, and proved like those that are read") {
  MemoryStep step;
  const TempDirectory directory;
  put_on_disk(step.files, directory, "step");
  FaultFiles files(posix_env().files);
  const auto reader = StepReader::open(files, directory.path("step"), ShardAccess::kMap);
  const int64_t reads = files.count(FileOperation::kRead);
  require_readable(*reader, step.pieces);
  CHECK(reader->verify(false).empty());
  CHECK(files.count(FileOperation::kRead) == reads);
  CHECK(files.count(FileOperation::kMap) > 0);
  const std::string name = shard_name(reader->manifest().files[0].ordinal);
  const std::unique_ptr<File> shard =
      posix_env().files.open_or_create(directory.path("step/" + name));
  for (const Slice& slice : reader->indexes()[0].slices) {
    char old = 0;
    shard->pread(&old, 1, slice.position);
    const char flipped = static_cast<char>(old ^ 1);
    shard->pwrite(&flipped, 1, slice.position);
    const std::vector<Damage> damage = reader->verify(false);
    require_error([&] { step.read_all(*reader); }, "corrupt", {"file=" + name});
    shard->pwrite(&old, 1, slice.position);
    REQUIRE(damage.size() == 1);
    CHECK(damage[0].offset == slice.position);
  }
  CHECK(reader->verify(false).empty());
  // What is not there any more is not looked at.
  REQUIRE(::truncate(shard->path().c_str(), 5000) == 0);
  CHECK(!reader->verify(false).empty());
  require_error([&] { step.read_all(*reader); }, "corrupt", {"offset=5000"});
}

TEST_CASE("a tensor in one slice is shown as the file holds it, once it is proved") {
  MemoryFiles files;
  const Manifest manifest = store_manifest(store_tensors(), 1);
  write_store(files, "step", manifest, store_whole(manifest));
  const TempDirectory directory;
  put_on_disk(files, directory, "step");
  const auto reader = StepReader::open(posix_env().files, directory.path("step"));
  const auto in_memory = StepReader::open(files, "step");
  for (size_t t = 0; t < manifest.tensors.size(); ++t) {
    const Shape& shape = manifest.tensors[t].shape;
    for (const TensorState& state : manifest.tensors[t].states) {
      const auto tensor = static_cast<uint32_t>(t);
      const std::string want =
          store_values(tensor, state.kind, state.dtype, Box::whole(shape), shape);
      const auto mapping = reader->map_whole(tensor, state.kind);
      REQUIRE(mapping != nullptr);
      CHECK(std::string(mapping->data(), want.size()) == want);
      CHECK(in_memory->map_whole(tensor, state.kind) == nullptr);
    }
  }
  const Slice& slice = reader->indexes()[0].slices[0];
  const std::unique_ptr<File> shard =
      posix_env().files.open_or_create(directory.path("step/" + shard_name(0)));
  shard->pwrite("\x5A", 1, slice.position);
  require_error([&] { reader->map_whole(slice.tensor, slice.kind); }, "corrupt");
}

TEST_CASE("a tensor in several slices is not shown") {
  MemoryStep step;
  const TempDirectory directory;
  put_on_disk(step.files, directory, "step");
  const auto reader = StepReader::open(posix_env().files, directory.path("step"));
  std::map<std::pair<uint32_t, StateKind>, int> slices;
  for (const ShardIndex& index : reader->indexes()) {
    for (const Slice& slice : index.slices) ++slices[{slice.tensor, slice.kind}];
  }
  int cut = 0;
  for (const auto& [state, count] : slices) {
    CHECK((reader->map_whole(state.first, state.second) != nullptr) == (count == 1));
    cut += count > 1 ? 1 : 0;
  }
  CHECK(cut > 0);
}

}  // namespace
}  // namespace plait
