// FaultFiles: each operation counted, failed, or the end of the process.
#include "tests/support/fault_files.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/sim_files.h"

namespace plait {
namespace {

/// Every operation of File and Files but reading; `locked` is what the lock said.
void use_everything(Files& files, bool* locked) {
  files.make_directory("a");
  files.make_private_directory("b");
  files.free_bytes("a");
  const auto lock = files.open_or_create("LOCK");
  *locked = lock->try_lock_exclusive();
  const auto file = files.create_private("a/file");
  file->allocate(4);
  file->pwrite("text", 4, 0);
  file->sync_data();
  file->sync();
  if (file->size() != 4) throw Error("invariant", "four bytes are four");
  file->close();
  files.sync_directory("a");
  files.exchange("a", "b");
  files.rename_noreplace("b", "c");
  files.rename("c/file", "c/new");
  files.unlink("c/new");
  files.remove_directory("a");
}

std::string fault_word(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.word();
  } catch (const Killed&) {
    return "killed";
  }
  return "";
}

}  // namespace

TEST_CASE("operations are counted by kind", "[fault_files]") {
  SimFiles sim;
  FaultFiles files(sim);
  int64_t seen = 0;
  files.before_each([&](FileOperation, const std::string&) { ++seen; });
  bool locked = false;
  use_everything(files, &locked);
  CHECK(locked);
  CHECK(files.total() == 18);
  CHECK(seen == 18);
  CHECK(files.count(FileOperation::kMakeDirectory) == 2);
  CHECK(files.count(FileOperation::kCreate) == 2);
  CHECK(files.count(FileOperation::kRename) == 2);
  for (const FileOperation kind :
       {FileOperation::kFreeBytes, FileOperation::kLock, FileOperation::kAllocate,
        FileOperation::kWrite, FileOperation::kSyncData, FileOperation::kSync, FileOperation::kStat,
        FileOperation::kClose, FileOperation::kSyncDirectory, FileOperation::kExchange,
        FileOperation::kUnlink, FileOperation::kRemoveDirectory}) {
    INFO(static_cast<int>(kind));
    CHECK(files.count(kind) == 1);
    SimFiles other;
    FaultFiles failing(other);
    failing.fail(kind, 0, EDQUOT);
    CHECK(fault_word([&] { use_everything(failing, &locked); }) == "quota");
    CHECK_FALSE(failing.is_killed());
  }
}

TEST_CASE("a killed process has done the operation or not, and does nothing more",
          "[fault_files]") {
  SimFiles whole;
  FaultFiles clean(whole);
  std::vector<std::vector<std::string>> trees = {whole.tree()};
  clean.before_each([&](FileOperation, const std::string&) { trees.push_back(whole.tree()); });
  bool locked = false;
  use_everything(clean, &locked);
  trees.push_back(whole.tree());  // [i + 1] before operation i, [i + 2] after it
  for (int64_t nth = 0; nth < clean.total(); ++nth) {
    for (const KillPoint point : {KillPoint::kBefore, KillPoint::kAfter}) {
      SimFiles sim;
      FaultFiles files(sim);
      files.kill(nth, point);
      INFO(nth << (point == KillPoint::kBefore ? " before" : " after"));
      CHECK(fault_word([&] { use_everything(files, &locked); }) == "killed");
      CHECK(files.is_killed());
      const size_t state = static_cast<size_t>(nth) + (point == KillPoint::kBefore ? 1 : 2);
      CHECK(sim.tree() == trees[state]);
      CHECK(fault_word([&] { files.make_directory("more"); }) == "killed");
      CHECK(fault_word([&] { files.unlink("LOCK"); }) == "killed");
      CHECK(sim.tree() == trees[state]);
      CHECK(files.total() == nth + 1);
      CHECK(sim.open_or_create("LOCK")->try_lock_exclusive());
    }
  }
}

TEST_CASE("a fault finds its file by a part of the path", "[fault_files]") {
  SimFiles sim;
  FaultFiles files(sim);
  files.create("LATEST", true);
  files.fail(FileOperation::kCreate, 1, EACCES, "step/");
  files.make_directory("step");
  for (const char* name : {"MANIFEST", "step/a", "step/b", "step/c"}) {
    INFO(name);
    const bool is_meant = std::string(name) == "step/b";
    CHECK(fault_word([&] { files.create(name, true); }) == (is_meant ? "permission" : ""));
  }
  files.kill_at(files.total() + 1, EIO);
  CHECK(files.exists("step/a"));
  CHECK(fault_word([&] { files.exists("step/a"); }) == "io_error");
  CHECK(fault_word([&] { files.unlink("step/a"); }) == "io_error");
}

TEST_CASE("a sync after a failure is noticed", "[fault_files]") {
  for (const FileOperation kind :
       {FileOperation::kWrite, FileOperation::kAllocate, FileOperation::kSyncData}) {
    SimFiles sim;
    FaultFiles files(sim);
    const auto file = files.create("file", true);
    file->sync();
    files.fail(kind, 0, EIO);
    CHECK(fault_word([&] {
            file->allocate(1);
            file->pwrite("x", 1, 0);
            file->sync_data();
          }) == "io_error");
    CHECK(files.syncs_of_dead_files() == 0);
    file->sync();
    CHECK(files.syncs_of_dead_files() == 1);
    files.create("file", false)->sync();
    CHECK(files.syncs_of_dead_files() == 1);
  }
}

}  // namespace plait
