// Saves that end anywhere: by power loss, by an operation that fails.
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/checkpoint/store_crash_fixture.h"
#include "tests/checkpoint/store_root_fixture.h"
#include "tests/support/fault_files.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

using test::CrashWatch;
using test::files_for_root;
using test::kRootPath;
using test::save_step;

constexpr uint64_t kDraws = test::kIsSanitized ? 6 : 300;
constexpr int64_t kLeastStates = test::kIsSanitized ? 1'000 : 100'000;
// Draws end with the first violation, so that many cost little where one must be found.
constexpr uint64_t kDrawsToFind = 400;

TEST_CASE("power loss: an acknowledged save is found, whatever was going on") {
  struct History {
    const char* name;
    std::vector<int64_t> steps;
    CommitOptions commit;
  };
  int64_t states = 0;
  for (const History& history : {History{"one step after another", {1, 2, 3}, {}},
                                 History{"a step replaces itself", {1, 1, 1}, {true, false}},
                                 History{"commit=manifest_last", {1, 2, 3}, {false, true}},
                                 History{"after a rollback", {5, 9, 6}, {}}}) {
    SimFiles files = files_for_root();
    CrashWatch watch(files, kDraws);
    watch.live(history.steps, history.commit);
    INFO(history.name << ": " << watch.violation());
    REQUIRE(watch.violation().empty());
    REQUIRE(watch.acknowledged() == history.steps.size());
    REQUIRE(watch.states() > files.operations());
    std::printf("| power loss, %s | %lld states | no violation |\n", history.name,
                static_cast<long long>(watch.states()));
    states += watch.states();
  }
  CHECK(states >= kLeastStates);
}

TEST_CASE("power loss: each sync of a save is needed") {
  int64_t before = 0;
  std::vector<std::string> syncs;
  {
    SimFiles files = files_for_root();
    CrashWatch watch(files, 0);
    watch.live({1}, {});
    before = static_cast<int64_t>(files.syncs().size());
    Env env = test::env_of(files);
    const auto root = RootWriter::open(env, kRootPath, "r", nullptr, 0);
    save_step(*root, files, {2, {}, {1, 0}, {}});
    syncs = files.syncs();
  }
  // Three shards and their indexes, manifest, step, root; LATEST, root; root. And where a process
  // opens the root it syncs its parent, which was synced before.
  REQUIRE(syncs.size() == static_cast<size_t>(before + 1 + 12));
  for (int64_t nth = before; nth < before + 12; ++nth) {
    SimFiles files = files_for_root();
    CrashWatch watch(files, kDrawsToFind);
    watch.wait_for(1);
    files.drop_sync(nth);
    watch.live({1, 2}, {});
    INFO(syncs[static_cast<size_t>(nth + 1)]);
    CHECK_FALSE(watch.violation().empty());
  }
}

/// Calls `visit` with the files as they are after each operation of the last of these saves, writes
/// left out: they fill files that have no name yet.
void after_each_operation(const std::vector<int64_t>& steps, const CommitOptions& commit,
                          const std::function<void(SimFiles& files, const std::string& when,
                                                   uint64_t acknowledged)>& visit) {
  SimFiles files = files_for_root();
  Env env = test::env_of(files);
  const auto root = RootWriter::open(env, kRootPath, "r", nullptr, 0);
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    save_step(*root, files, {steps[i], commit, {1, 0}, {}});
  }
  uint64_t acknowledged = steps.size() - 1;
  files.after_each([&](const char* operation, const std::string& path) {
    const std::string name = operation;
    if (name != "write") visit(files, name + " " + path, acknowledged);
  });
  save_step(*root, files, {steps.back(), commit, {1, 0}, [&] { ++acknowledged; }});
  files.after_each({});
}

TEST_CASE("a process is killed anywhere, and the next one loses power anywhere") {
  for (const CommitOptions& commit :
       {CommitOptions{}, CommitOptions{true, false}, CommitOptions{false, true}}) {
    const std::vector<int64_t> steps = {1, commit.may_replace ? 1 : 2};
    after_each_operation(steps, commit, [&](SimFiles& now, const std::string& when, uint64_t sure) {
      SimFiles files = now.kill();
      CrashWatch watch(files, test::kIsSanitized ? 1 : 3, sure);
      watch.live({3}, commit);
      INFO(when);
      INFO(watch.violation());
      REQUIRE(watch.violation().empty());
      REQUIRE(test::other_names(files, kRootPath).empty());
    });
  }
}

TEST_CASE("after power loss anywhere the same step can be saved again") {
  after_each_operation({1, 2}, {}, [&](SimFiles& now, const std::string& when, uint64_t) {
    now.for_each_crash(test::kIsSanitized ? 2 : 8, 5, [&](SimFiles& files, uint64_t choice) {
      Env env = test::env_of(files);
      const auto root = RootWriter::open(env, kRootPath, "r", nullptr, 0);
      save_step(*root, files, {2, {true, false}, {1, 0}, {}});
      INFO(when << ", choice " << choice);
      std::string faults;
      REQUIRE(test::newest_step(files, kRootPath, &faults) == 2);
      REQUIRE(faults.empty());
      REQUIRE(test::other_names(files, kRootPath).empty());
    });
  });
}

/// A root with step 1, and a save of step 2 through files that fail; its error's word.
struct FaultyRun {
  FaultyRun() : files(files_for_root()), faults(files) {
    Env env = test::env_of(files);
    const auto root = RootWriter::open(env, kRootPath, "r", nullptr, 0);
    save_step(*root, files, {1, {}, {1, 0}, {}});
  }
  std::string save() {
    Env env = test::env_of(faults);
    try {
      const auto root = RootWriter::open(env, kRootPath, "r", nullptr, 0);
      save_step(*root, faults, {2, {}, {1, 0}, [&] { is_acknowledged = true; }});
    } catch (const Error& error) {
      return error.word();
    }
    return "";
  }
  /// The next process saves step 3, and nothing else is left.
  void require_next_save_works() {
    Env env = test::env_of(files);
    const auto root = RootWriter::open(env, kRootPath, "r", nullptr, 0);
    save_step(*root, files, {3, {}, {1, 0}, {}});
    std::string wrong;
    REQUIRE(test::newest_step(files, kRootPath, &wrong) == 3);
    REQUIRE(wrong.empty());
    REQUIRE(files.list(kRootPath) ==
            std::vector<std::string>{"LATEST", "LOCK", "step-000000000003"});
  }

  SimFiles files;
  FaultFiles faults;
  bool is_acknowledged = false;
};

TEST_CASE("any operation of a save fails: the old or the new step is there, and the next works") {
  int64_t failures = 0;
  for (int kind = 0; kind < static_cast<int>(FileOperation::kCount); ++kind) {
    for (int64_t nth = 0;; ++nth) {
      FaultyRun run;
      run.faults.fail(static_cast<FileOperation>(kind), nth, ENOSPC);
      const std::string word = run.save();
      if (run.faults.count(static_cast<FileOperation>(kind)) <= nth) {
        REQUIRE(word.empty());
        break;
      }
      ++failures;
      INFO("kind " << kind << ", operation " << nth << ": " << word);
      // What is only a warning leaves the save acknowledged.
      REQUIRE(run.is_acknowledged == word.empty());
      std::string wrong;
      const int64_t found = test::newest_step(run.files, kRootPath, &wrong);
      REQUIRE(found == (run.is_acknowledged ? 2 : 1));
      REQUIRE(wrong.empty());
      REQUIRE(run.faults.syncs_of_dead_files() == 0);
      if (!run.is_acknowledged) REQUIRE(test::other_names(run.files, kRootPath).empty());
      run.require_next_save_works();
    }
  }
  CHECK(failures > 100);
}

}  // namespace
}  // namespace plait
