// Saves of which a process is killed before or after any of its operations on files: an exception
// stands for the kill, and nothing that unwinds reaches the files. With real processes:
// soak_kill_points_test.cc.
#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>
#include <vector>

#include "tests/checkpoint/store_crash_fixture.h"
#include "tests/support/fault_files.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

using test::kRootPath;
using test::SaveScenario;

constexpr size_t kRanks = 4;
constexpr int64_t kEveryOperation = test::kIsSanitized ? 7 : 1;
constexpr int64_t kLeastPoints = test::kIsSanitized ? 100 : 1'000;

/// A save by one process for each rank, of which one is to be killed; or by one process alone.
class KilledSave {
 public:
  KilledSave(const SimFiles& before, size_t processes) : files_(before.kill()) {
    for (size_t i = 0; i < processes; ++i)
      processes_.push_back(std::make_unique<FaultFiles>(files_));
  }
  FaultFiles& process(size_t i) { return *processes_[i]; }

  /// Whether it came to its end.
  bool run(test::SavePlan plan) {
    plan.acknowledged = [&] { is_acknowledged_ = true; };
    std::vector<Files*> ranks;
    for (size_t i = 0; i < kRanks; ++i) ranks.push_back(processes_[i % processes_.size()].get());
    Env env = test::env_of(*ranks[0]);
    try {
      const auto root = RootWriter::open(env, kRootPath, "r", nullptr, 0);
      test::save_step(*root, ranks, plan);
    } catch (const Killed&) {
      return false;
    }
    return true;
  }
  bool is_acknowledged() const { return is_acknowledged_; }
  SimFiles files() const { return files_.kill(); }

 private:
  SimFiles files_;
  std::vector<std::unique_ptr<FaultFiles>> processes_;
  bool is_acknowledged_ = false;
};

/// Kills `dying` of `processes` at each of its operations; how many points there were.
int64_t kill_everywhere(const SaveScenario& scenario, size_t processes, size_t dying) {
  SimFiles before = test::files_for_root();
  test::save_before(before, kRootPath, scenario);
  const uint64_t saves = scenario.before.size();
  int64_t points = 0;
  for (int64_t nth = 0;; nth += kEveryOperation) {
    for (const KillPoint point : {KillPoint::kBefore, KillPoint::kAfter}) {
      INFO(scenario.name << ", process " << dying << " of " << processes << ", operation " << nth
                         << (point == KillPoint::kBefore ? ", before" : ", after"));
      KilledSave save(before, processes);
      save.process(dying).kill(nth, point);
      const bool is_whole = save.run(scenario.plan);
      REQUIRE(is_whole == !save.process(dying).is_killed());
      if (is_whole) {
        REQUIRE(save.process(dying).total() <= nth);
        REQUIRE(save.is_acknowledged());
        return points;
      }
      ++points;
      SimFiles files = save.files();
      // A shard's process dies before the commit: the root's hears of it and leaves nothing.
      const bool holds_root = dying == 0;
      if (!holds_root) {
        REQUIRE_FALSE(save.is_acknowledged());
        REQUIRE(test::other_names(files, kRootPath).empty());
      }
      const std::string fault = test::fault_after_kill(
          files, kRootPath,
          {saves + (save.is_acknowledged() ? 1 : 0), saves + (holds_root ? 1 : 0)});
      REQUIRE(fault.empty());
    }
  }
}

TEST_CASE("a process is killed before and after any operation of a save") {
  int64_t points = 0;
  for (const SaveScenario& scenario : test::save_scenarios()) {
    int64_t here = kill_everywhere(scenario, 1, 0);
    for (size_t rank = 0; rank < kRanks; ++rank) here += kill_everywhere(scenario, kRanks, rank);
    std::printf("| kills in a save, %s | %lld points | no save lost |\n", scenario.name,
                static_cast<long long>(here));
    points += here;
  }
  CHECK(points >= kLeastPoints);
}

}  // namespace
}  // namespace plait
