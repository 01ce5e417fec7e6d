#include "tests/checkpoint/store_crash_fixture.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "checkpoint/store/root_files.h"

namespace plait::test {

CrashWatch::CrashWatch(SimFiles& files, uint64_t draws, uint64_t acknowledged)
    : files_(files), draws_(draws), acknowledged_(acknowledged), begun_(acknowledged) {
  files_.after_each([this](const char* operation, const std::string& path) {
    // Most operations are writes of a step that has no name yet.
    const bool is_write = std::string_view(operation) == "write";
    look(std::string(operation) + " " + path, is_write ? (draws_ + 7) / 8 : draws_);
  });
}

CrashWatch::~CrashWatch() { files_.after_each({}); }

void CrashWatch::live(const std::vector<int64_t>& steps, const CommitOptions& commit) {
  Env env = env_of(files_);
  std::string ignored;
  // What the process before had begun may be there.
  begun_ = std::max(begun_, find_newest(files_, kRootPath, &ignored).sequence);
  const auto root = RootWriter::open(env, kRootPath, "r", nullptr, 0);
  for (const int64_t step : steps) {
    const uint64_t sequence = find_newest(files_, kRootPath, &ignored).sequence + 1;
    begun_ = std::max(begun_, sequence);
    SavePlan plan{step, commit, {1, 0}, {}};
    plan.acknowledged = [&] {
      acknowledged_ = sequence;
      look("acknowledgement of step " + std::to_string(step), draws_);
    };
    save_step(*root, files_, plan);
  }
}

void CrashWatch::look(const std::string& when, uint64_t draws) {
  if (!violation_.empty() || acknowledged_ < first_) return;
  const uint64_t seed = static_cast<uint64_t>(files_.operations());
  files_.for_each_crash(draws, seed, [&](SimFiles& after, uint64_t choice) {
    if (!violation_.empty()) return;
    ++states_;
    const std::string fault = load_fault(after, kRootPath, {acknowledged_, begun_});
    if (fault.empty()) return;
    violation_ = "after " + when + ", choice " + std::to_string(choice) + ", " + fault;
    for (const std::string& line : after.tree()) violation_ += "\n" + line;
  });
}

SimFiles files_for_root() {
  SimFiles files;
  files.make_directory("/runs");
  files.sync_directory("/");
  return files;
}

std::string load_fault(Files& files, const std::string& root, const KnownSaves& saves) {
  std::string faults;
  const uint64_t found = find_newest(files, root, &faults).sequence;
  if (found < saves.acknowledged) faults += "the acknowledged save is gone; ";
  if (found > saves.begun) faults += "a save is there that was not begun; ";
  if (faults.empty()) return "";
  return faults + "found " + std::to_string(found) + " of saves " +
         std::to_string(saves.acknowledged) + " to " + std::to_string(saves.begun);
}

std::vector<SaveScenario> save_scenarios() {
  const CommitOptions replacing{true, false}, manifest_last{false, true};
  return {{"first save", {}, {1, {}, {1, 0}, {}}},
          {"next save", {1}, {2, {}, {1, 0}, {}}},
          {"manifest last", {1}, {2, manifest_last, {1, 0}, {}}},
          {"replacing", {1}, {1, replacing, {1, 0}, {}}},
          {"rollback", {5, 9}, {6, {}, {1, 0}, {}}},
          {"retention", {1, 2, 3, 4}, {5, {}, {2, 2}, {}}}};
}

void save_before(Files& files, const std::string& root, const SaveScenario& scenario) {
  if (scenario.before.empty()) return;
  Env env = env_of(files);
  const auto writer = RootWriter::open(env, root, "before", nullptr, 0);
  const CommitOptions commit{false, scenario.plan.commit.is_manifest_last};
  for (const int64_t step : scenario.before) save_step(*writer, files, {step, commit, {}, {}});
}

std::string fault_after_kill(Files& files, const std::string& root, const KnownSaves& saves) {
  constexpr int64_t kNextStep = 1000;
  std::string fault = load_fault(files, root, saves);
  if (!fault.empty()) return fault;
  Env env = env_of(files);
  const auto writer = RootWriter::open(env, root, "next", nullptr, 0);
  save_step(*writer, files, {kNextStep, {}, {1, 0}, {}});
  if (newest_step(files, root, &fault) != kNextStep) fault += "the next save is not the newest; ";
  const std::vector<std::string> wanted = {RootNames::kLatest, RootNames::kLock,
                                           step_name(kNextStep)};
  for (const std::string& name : files.list(root)) {
    if (std::count(wanted.begin(), wanted.end(), name) == 0) fault += name + " is left; ";
  }
  return fault;
}

}  // namespace plait::test
