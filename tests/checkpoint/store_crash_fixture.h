// Power losses during saves: after each operation the states that a loss of power may leave are
// looked at, as a load would. And saves in which a process is killed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/store/root.h"
#include "tests/checkpoint/store_root_fixture.h"
#include "tests/support/sim_files.h"

namespace plait::test {

/// Watches the saves of one process after another in the same files. Holds: what is found is no
/// older than the newest save that was acknowledged, and no other than one that was begun; each
/// step-* verifies; LATEST names a step.
class CrashWatch {
 public:
  /// Looks at up to `draws` states after each operation, fewer after a write. `acknowledged`:
  /// sequence of what was saved in these files before.
  CrashWatch(SimFiles& files, uint64_t draws, uint64_t acknowledged = 0);
  ~CrashWatch();
  CrashWatch(const CrashWatch&) = delete;
  CrashWatch& operator=(const CrashWatch&) = delete;

  /// Looks at nothing before this many saves were acknowledged.
  void wait_for(uint64_t saves) { first_ = saves; }
  /// A process that opens the root and saves these steps with retention 1.
  void live(const std::vector<int64_t>& steps, const CommitOptions& commit);

  const std::string& violation() const { return violation_; }  ///< the first; empty: none
  int64_t states() const { return states_; }
  uint64_t acknowledged() const { return acknowledged_; }

 private:
  void look(const std::string& when, uint64_t draws);

  SimFiles& files_;
  uint64_t draws_, acknowledged_, begun_, first_ = 0;
  std::string violation_;
  int64_t states_ = 0;
};

/// Simulated files with a durable parent of kRootPath.
SimFiles files_for_root();

/// Saves of a root by sequence: the last that was acknowledged, and the last that had begun to be
/// committed.
struct KnownSaves {
  uint64_t acknowledged = 0, begun = 0;
};
/// What a load of a root finds wrong, saves that are gone or come from nowhere included.
std::string load_fault(Files& files, const std::string& root, const KnownSaves& saves);

/// A save that may end early.
struct SaveScenario {
  const char* name;
  std::vector<int64_t> before;  ///< steps that the root holds, by sequence
  SavePlan plan;
};
/// A first save; another, which removes the one before; the same with commit=manifest_last; a step
/// that replaces itself; one after a rollback; retention that removes some steps and keeps others.
std::vector<SaveScenario> save_scenarios();
/// Makes the root as it is before.
void save_before(Files& files, const std::string& root, const SaveScenario& scenario);
/// What is wrong after a process of a save was killed: with what a load finds, or with the save of
/// the next process, which leaves its step and nothing else.
std::string fault_after_kill(Files& files, const std::string& root, const KnownSaves& saves);

}  // namespace plait::test
