// Roots: retention, clean-up, LATEST, commit=manifest_last, and files of the running system.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/store/root_files.h"
#include "checkpoint/store/step_reader.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/store_root_sim.h"
#include "tests/support/fault_files.h"

namespace plait {
namespace {

using Catch::Matchers::Contains;
using test::caught;
using test::kRootPath;
using test::Names;
using test::newest_step;
using test::other_names;
using test::save_step;
using test::SimRoot;

TEST_CASE("retention keeps the last by sequence and every nth, and nothing when it is off") {
  SimRoot root;
  for (const int64_t step : {10, 20, 30, 15, 25}) root.save(step);
  CHECK(root.steps() == std::vector<int64_t>{25, 15, 30, 20, 10});
  root.writer->retain({0, 10});
  CHECK(root.steps().size() == 5);
  root.writer->retain({4, 0});
  CHECK(root.steps() == std::vector<int64_t>{25, 15, 30, 20});
  root.writer->retain({1, 20});
  CHECK(root.steps() == std::vector<int64_t>{25, 20});
  root.writer->retain({1, 0});
  CHECK(root.steps() == std::vector<int64_t>{25});
  root.writer->retain({1, 0});
  CHECK(root.steps() == std::vector<int64_t>{25});
  CHECK(root.faults().empty());
  CHECK(other_names(root.files, kRootPath).empty());
}

TEST_CASE("retention leaves alone what is read, what LATEST names and what is no step") {
  SimRoot root;
  for (const int64_t step : {1, 2, 3, 4}) root.save(step);
  root.write("step-000000000002/MANIFEST", "damaged");
  root.files.make_directory(root.in("step-9"));
  root.write("notes", "mine");
  root.writer->point_latest(1);
  auto reader = StepReader::open(root.files, root.in("step-000000000003"));
  root.writer->retain({1, 0});
  CHECK(root.steps() == std::vector<int64_t>{4, 3, 1});
  reader.reset();
  // Another process learns from LATEST.
  root.open();
  root.writer->retain({1, 0});
  CHECK(root.steps() == std::vector<int64_t>{4, 1});
  root.writer->point_latest(4);
  root.writer->retain({1, 0});
  CHECK(root.files.list(kRootPath) ==
        Names{"LATEST", "LOCK", "notes", "step-000000000002", "step-000000000004", "step-9"});
  CHECK(root.read("step-000000000002/MANIFEST") == "damaged");
}

TEST_CASE("a LATEST that could not be written keeps the step that it names") {
  for (const FileOperation kind : {FileOperation::kCreate, FileOperation::kSync,
                                   FileOperation::kRename, FileOperation::kSyncDirectory}) {
    SimRoot root;
    root.save(1);
    root.save(2);
    FaultFiles faults(root.files);
    Env env = test::env_of(faults);
    root.writer.reset();
    const auto writer = RootWriter::open(env, kRootPath, "r", &root.log, 0);
    root.warnings();
    test::SavePlan plan{3, {}, {1, 0}, {}};
    plan.acknowledged = [&] { faults.fail(kind, faults.count(kind), EIO); };
    save_step(*writer, faults, plan);
    INFO(static_cast<int>(kind));
    REQUIRE(root.warnings().size() == 1);
    std::string fault;
    for (const int seed : {0, 1, 2, 3, 4, 5, 6, 7}) {
      SimFiles after = root.files.crash(static_cast<uint64_t>(seed));
      CHECK(newest_step(after, kRootPath, &fault) == 3);
    }
    CHECK(fault.empty());
  }
}

TEST_CASE("what dead writers have left is reported and removed, and nothing else") {
  SimRoot root;
  root.save(1);
  for (const char* name :
       {"tmp-000000000002-0000000000000001", "trash-000000000001-0000000000000002"}) {
    root.files.make_directory(root.in(name));
    root.write(std::string(name) + "/MANIFEST", "half");
    root.write(std::string(name) + "/s00003.plt", "half");
  }
  root.files.make_directory(root.in("step-000000000007"));
  root.write("step-000000000007/s00000.idx", "no manifest follows");
  root.files.make_directory(root.in("tmp-mine"));
  root.files.make_directory(root.in("tmp-000000000002-0000000000000009"));
  root.write("tmp-000000000002-0000000000000009/thesis.txt", "somebody's");
  const std::string own = root.writer->begin(8, 1, {});
  const Names warnings = root.warnings();
  REQUIRE(warnings.size() == 4);
  CHECK_THAT(warnings[0], Contains("removed") && Contains("step-000000000007"));
  CHECK_THAT(warnings[1], Contains("removed") && Contains("tmp-000000000002-0000000000000001"));
  CHECK_THAT(warnings[2], Contains("not be removed"));
  CHECK_THAT(warnings[3], Contains("removed") && Contains("trash-"));
  // The second of two saves in flight is not a leftover of the first.
  const std::string second = root.writer->begin(9, 1, {});
  Names want = {"tmp-000000000002-0000000000000009", "tmp-mine", last_name(own), last_name(second)};
  std::sort(want.begin(), want.end());
  CHECK(other_names(root.files, kRootPath) == want);
  CHECK(root.read("tmp-000000000002-0000000000000009/thesis.txt") == "somebody's");
  CHECK(root.steps() == std::vector<int64_t>{1});
  root.writer->discard(own);
  root.writer->discard(second);
  root.writer->discard(root.in("step-000000000001"));  // not its own
  CHECK(root.steps() == std::vector<int64_t>{1});
  CHECK(other_names(root.files, kRootPath).size() == 2);
}

TEST_CASE("with commit=manifest_last a step is none before its manifest has its name") {
  SimRoot root;
  root.commit.is_manifest_last = true;
  const std::string directory = root.writer->begin(5, 1, root.commit);
  CHECK(directory == root.in("step-000000000005"));
  const Manifest manifest = write_shards(root.files, directory, test::SmallState(5, 3));
  CHECK(root.steps().empty());
  CHECK(caught([&] { root.writer->begin(5, 1, root.commit); }).word() == "step_exists");
  root.writer->commit(directory, manifest, "{}", root.commit);
  CHECK(root.steps() == std::vector<int64_t>{5});
  CHECK(root.faults().empty());
  CHECK_FALSE(root.files.exists(directory + "/MANIFEST.tmp"));

  root.save(6, 1);
  root.save(7, 1);
  CHECK(root.steps() == std::vector<int64_t>{7});
  CommitOptions replacing = root.commit;
  replacing.may_replace = true;
  CHECK(caught([&] { root.writer->begin(7, 1, replacing); }).word() == "no_exchange");
  // One that fails is removed; one whose writer died is removed by the next.
  root.writer->discard(root.writer->begin(8, 1, root.commit));
  CHECK_FALSE(root.files.exists(root.in("step-000000000008")));
  write_shards(root.files, root.writer->begin(9, 1, root.commit), test::SmallState(9, 3));
  root.open();
  root.save(10, 1);
  CHECK(root.files.list(kRootPath) == Names{"LATEST", "LOCK", "step-000000000010"});
}

TEST_CASE("files of the running system: modes, the lock, a save, its replacement, retention") {
  const TempDirectory temp;
  const std::string path = temp.path("ckpt");
  Env& env = posix_env();
  auto writer = RootWriter::open(env, path, "r", nullptr, 0);
  CHECK(caught([&] { RootWriter::open(env, path, "s", nullptr, 0); }).word() == "locked");
  const std::string step = save_step(*writer, env.files, {1, {}, {1, 0}, {}});
  save_step(*writer, env.files, {1, {true, false}, {1, 0}, {}});
  const auto mode = [](const std::string& file) {
    return static_cast<int>(std::filesystem::status(file).permissions()) & 077;
  };
  for (const char* name : {"", "/MANIFEST", "/INFO.json", "/s00000.plt", "/s00000.idx"}) {
    CHECK(mode(step + name) == 0);
  }
  for (const char* name : {"", "/LOCK", "/LATEST"}) CHECK(mode(path + name) == 0);
  save_step(*writer, env.files, {2, {}, {1, 0}, {}});
  std::string faults;
  CHECK(newest_step(env.files, path, &faults) == 2);
  CHECK(faults.empty());
  CHECK(env.files.list(path) == Names{"LATEST", "LOCK", "step-000000000002"});
  writer.reset();
  CHECK_NOTHROW(RootWriter::open(env, path, "s", nullptr, 0));
}

}  // namespace
}  // namespace plait
