// Which step of a root is opened, and how two steps differ.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/store/root.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/store_fixture.h"
#include "tests/support/memory_files.h"

namespace plait {
namespace {

/// A root on disk with whole small steps in it.
struct StoreRoot {
  TempDirectory directory;
  Files& files = posix_env().files;

  std::string add(int64_t step, uint64_t sequence) {
    const std::string path = directory.path(step_name(step));
    files.make_directory(path);
    const Manifest fields = store_manifest(store_tensors(), 1, step);
    write_store(files, path, fields, store_whole(fields), sequence);
    return path;
  }
  /// Changes one byte of a file of a step.
  void harm(int64_t step, const std::string& name, int64_t offset) const {
    const auto file = files.open_or_create(directory.path(step_name(step) + "/" + name));
    char byte = 0;
    file->pread(&byte, 1, offset);
    byte = static_cast<char>(byte ^ 1);
    file->pwrite(&byte, 1, offset);
  }
  int64_t opened(bool is_falling_back = true) const {
    const OpenedStep step = open_checkpoint(files, directory.path(), is_falling_back);
    return step.reader->manifest().progress.step;
  }
};

TEST_CASE("the newest step of a root is the one of the highest sequence") {
  StoreRoot root;
  root.add(10, 1);
  root.add(30, 2);
  const std::string path = root.add(20, 3);  // after a rollback
  CHECK(root.opened() == 20);
  CHECK(root.opened(false) == 20);
  const OpenedStep step = open_checkpoint(root.files, root.directory.path(), true);
  CHECK(step.skipped.empty());
  CHECK(step.reader->sequence() == 3);
  CHECK(open_checkpoint(root.files, path + "//", true).reader->sequence() == 3);
  CHECK(is_native_checkpoint(root.files, root.directory.path()));
  CHECK(is_native_checkpoint(root.files, path));
}

TEST_CASE("a damaged step is left for an older one, with the reason") {
  StoreRoot root;
  root.add(10, 1);
  root.add(20, 2);
  root.add(30, 3);
  root.add(40, 4);
  root.harm(40, "MANIFEST", 20);  // its trailer is wrong: it has no place in the order
  root.harm(30, index_name(0), 20);
  REQUIRE(::remove(root.directory.path(step_name(20) + "/" + shard_name(0)).c_str()) == 0);
  const OpenedStep step = open_checkpoint(root.files, root.directory.path(), true);
  CHECK(step.reader->manifest().progress.step == 10);
  REQUIRE(step.skipped.size() == 3);
  CHECK(step.skipped[0].name == step_name(40));
  CHECK(step.skipped[0].word == "corrupt");
  CHECK(step.skipped[1].name == step_name(30));
  CHECK(step.skipped[1].word == "corrupt");
  CHECK(step.skipped[1].reason.find(index_name(0)) != std::string::npos);
  CHECK(step.skipped[2].name == step_name(20));
  CHECK(step.skipped[2].word == "missing_shard");
  require_error([&] { open_checkpoint(root.files, root.directory.path(), false); }, "corrupt",
                {index_name(0)});
  require_error([&] { open_checkpoint(root.files, root.directory.path(step_name(20)), true); },
                "missing_shard");
  root.harm(10, "MANIFEST", 21);
  require_error([&] { open_checkpoint(root.files, root.directory.path(), true); }, "no_checkpoint",
                {"skipped=", step_name(10), step_name(20), step_name(30), step_name(40)});
}

TEST_CASE("no step is an error, never an empty start") {
  const TempDirectory directory;
  Files& files = posix_env().files;
  const auto refuse = [&](const std::string& path) {
    require_error([&] { open_checkpoint(files, path, true); }, "no_checkpoint");
    CHECK(!is_native_checkpoint(files, path));
  };
  refuse(directory.path("nowhere"));
  refuse(directory.path("nowhere/" + step_name(1)));
  refuse(directory.path());
  refuse(directory.write("file", "text"));
  files.make_directory(directory.path("tmp-000000000001-00ff"));
  refuse(directory.path());
  StoreRoot other;  // a step that was never committed is none, whole as it may be
  const std::string step = other.add(1, 1);
  files.rename(step, other.directory.path("tmp-000000000001-0123456789abcdef"));
  refuse(other.directory.path());
  refuse(other.directory.path("tmp-000000000001-0123456789abcdef"));
  directory.write("root/LOCK", "");
  require_error([&] { open_checkpoint(files, directory.path("root"), true); }, "no_checkpoint");
  CHECK(is_native_checkpoint(files, directory.path("root")));
  files.make_directory(directory.path("root/" + step_name(4)));  // of a writer that died
  require_error([&] { open_checkpoint(files, directory.path("root"), true); }, "no_checkpoint",
                {step_name(4)});
  directory.write("hub/config.json", "{}");
  directory.write("hub/model.safetensors", "");
  CHECK(!is_native_checkpoint(files, directory.path("hub")));
}

TEST_CASE("a step that is being removed is left alone") {
  StoreRoot root;
  root.add(10, 1);
  const std::string path = root.add(20, 2);
  const auto reader = StepReader::open(root.files, path);
  const auto manifest = root.files.open_read(path + "/MANIFEST");
  CHECK(!manifest->try_lock_exclusive());  // the reader holds it
  const auto second = StepReader::open(root.files, path);
  const std::string other = root.directory.path(step_name(10) + "/MANIFEST");
  const auto removing = root.files.open_read(other);
  REQUIRE(removing->try_lock_exclusive());
  require_error([&] { StepReader::open(root.files, root.directory.path(step_name(10))); },
                "locked");
}

/// Two steps in memory that differ as `change` says.
template <class Change>
std::vector<StateDifference> differences(Change change) {
  MemoryFiles files;
  Manifest a = store_manifest(store_tensors(), 1), b = a;
  std::vector<StorePiece> in_a = store_whole(a), in_b = in_a;
  change(&b, &in_b);
  std::mt19937_64 random(2);
  write_store(files, "a", a, in_a);
  write_store(files, "b", b, in_b);
  return compare_steps(*StepReader::open(files, "a"), *StepReader::open(files, "b"));
}

TEST_CASE("two steps of equal state do not differ, whatever their cut") {
  MemoryFiles files;
  std::mt19937_64 random(2);
  const Manifest a = store_manifest(store_tensors(), 1), b = store_manifest(store_tensors(), 5);
  write_store(files, "a", a, store_whole(a), 1);
  write_store(files, "b", b, store_pieces(b, 5, &random), 2);
  const auto one = StepReader::open(files, "a"), other = StepReader::open(files, "b");
  CHECK(compare_steps(*one, *other).empty());
}

TEST_CASE("the first element in which a tensor differs") {
  const auto found = differences([](Manifest*, std::vector<StorePiece>* pieces) {
    for (StorePiece& piece : *pieces) {
      if (piece.tensor != 1 || piece.kind != StateKind::kMoment1) continue;
      const float value = -0.0f;
      std::memcpy(piece.bytes.data() + (3 * 11 + 4) * 4, &value, 4);
      std::memcpy(piece.bytes.data() + (5 * 11 + 4) * 4, &value, 4);
    }
  });
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == "b.weight moment1");
  CHECK(found[0].where == "[3,4]");
  CHECK(found[0].b == "-0");
}

TEST_CASE("tensors that one step alone has, and other types") {
  const auto found = differences([](Manifest* manifest, std::vector<StorePiece>* pieces) {
    manifest->tensors[0].name = "aa.bias";
    manifest->tensors[5].states[0].dtype = DType::kFloat32;
    for (StorePiece& piece : *pieces) {
      if (piece.tensor == 5) piece.dtype = DType::kFloat32;
    }
  });
  REQUIRE(found.size() == 7);
  CHECK(found[0].what == "a.bias master");
  CHECK(found[0].a == "float32[13]");
  CHECK(found[0].b == "absent");
  CHECK(found[3].what == "aa.bias master");
  CHECK(found[3].a == "absent");
  CHECK(found[6].what == "f.ids extra");
  CHECK(found[6].a == "int32[5,1,3]");
  CHECK(found[6].b == "float32[5,1,3]");
}

TEST_CASE("fields in which two steps differ") {
  const auto found = differences([](Manifest* manifest, std::vector<StorePiece>*) {
    manifest->progress.lr = 1e-4;
    manifest->scaler.is_present = false;
    manifest->random.seed = 43;
    manifest->data.parts.pop_back();
    manifest->properties[0].type = SavedProperty::Type::kReal;
    manifest->properties[0].real = 0.5;
    manifest->properties[0].text = "";
  });
  std::vector<std::string> names;
  for (const StateDifference& one : found) names.push_back(one.what);
  const auto at = [&](const std::string& name) {
    const auto place = std::find(names.begin(), names.end(), name);
    REQUIRE(place != names.end());
    return found[static_cast<size_t>(place - names.begin())];
  };
  CHECK(at("progress.lr").a == "3e-04");
  CHECK(at("progress.lr").b == "1e-04");
  CHECK(at("scaler").b == "absent");
  CHECK(at("random.seed").b == "43");
  CHECK(at("data.parts[1].credit").a == "10");
  CHECK(at("properties.note").a == "text a small step");
  CHECK(at("properties.note").b == "real 0.5");
  CHECK(found.size() == 12);
}

TEST_CASE("a difference far inside a tensor of many chunks") {
  const auto kind = StateKind::kMaster;
  const Shape shape{3, 1'500'001};  // 18 MB: three ranges, none of which begins with a row
  const Manifest manifest =
      store_manifest({store_tensor("x", shape, {{kind, DType::kFloat32}})}, 1);
  MemoryFiles files;
  std::vector<StorePiece> pieces = store_whole(manifest);
  write_store(files, "a", manifest, pieces);
  const float value = 2.5f;
  for (const int64_t place : {int64_t{2} * 1'500'001 + 777, int64_t{3} * 1'500'001 - 1}) {
    std::memcpy(pieces[0].bytes.data() + place * 4, &value, 4);
  }
  std::mt19937_64 random(8);
  Manifest other = manifest;
  other.layout.data = 2;
  std::vector<StorePiece> halves;
  for (const Box& box : store_cut(Box::whole(shape), 5, &random)) {
    std::string bytes;
    const std::string& whole = pieces[0].bytes;
    for (int64_t r = box.first[0]; r < box.first[0] + box.size[0]; ++r) {
      bytes += whole.substr(static_cast<size_t>((r * shape[1] + box.first[1]) * 4),
                            static_cast<size_t>(box.size[1] * 4));
    }
    halves.push_back({static_cast<uint32_t>(halves.size() % 2), 0, kind, DType::kFloat32, box,
                      std::move(bytes)});
  }
  write_store(files, "b", other, halves);
  const auto found = compare_steps(*StepReader::open(files, "a"), *StepReader::open(files, "b"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].where == "[2,777]");
  CHECK(found[0].b == "2.5");
}

}  // namespace
}  // namespace plait
