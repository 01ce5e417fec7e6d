#include "tests/checkpoint/store_crash_fixture.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "tests/checkpoint/store_root_fixture.h"

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
    std::string faults;
    const uint64_t found = find_newest(after, kRootPath, &faults).sequence;
    if (found < acknowledged_) faults += "the acknowledged save is gone; ";
    if (found > begun_) faults += "a save is there that was not begun; ";
    if (faults.empty()) return;
    violation_ = "after " + when + ", choice " + std::to_string(choice) + ", saves " +
                 std::to_string(acknowledged_) + " of " + std::to_string(begun_) + ", found " +
                 std::to_string(found) + ": " + faults;
    for (const std::string& line : after.tree()) violation_ += "\n" + line;
  });
}

SimFiles files_for_root() {
  SimFiles files;
  files.make_directory("/runs");
  files.sync_directory("/");
  return files;
}

}  // namespace plait::test
