// A root in simulated files with a writer, for tests of one call after another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/store/root.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "tests/checkpoint/store_root_fixture.h"
#include "tests/support/sim_files.h"

namespace plait::test {

using Names = std::vector<std::string>;

/// A root in simulated files, and a writer that holds it.
class SimRoot {
 public:
  SimRoot() : env(env_of(files)), log(posix_env().clock) {
    files.make_directory("/runs");
    files.sync_directory("/");
    open();
  }
  /// The writer of another process, the first having ended.
  void open() {
    writer.reset();
    writer = RootWriter::open(env, kRootPath, "run-7", &log, 0);
  }
  std::string save(int64_t step, int64_t keep_last = 0, int64_t keep_every = 0) {
    return save_step(*writer, files, {step, commit, {keep_last, keep_every}, {}});
  }
  /// Of the steps, newest first.
  std::vector<int64_t> steps() {
    std::vector<int64_t> steps;
    for (const StepEntry& entry : list_root(files, kRootPath).steps) steps.push_back(entry.step);
    return steps;
  }
  std::vector<uint64_t> sequences() {
    std::vector<uint64_t> all;
    for (const StepEntry& one : list_root(files, kRootPath).steps) all.push_back(one.sequence);
    return all;
  }
  std::string in(const std::string& name) const { return join_path(kRootPath, name); }
  void write(const std::string& name, const std::string& text) {
    const auto file = files.create(in(name), false);
    file->pwrite(text.data(), static_cast<int64_t>(text.size()), 0);
  }
  std::string read(const std::string& name) { return read_file(files, in(name), 1 << 20); }
  /// What is wrong with it, read as a load would.
  std::string faults() {
    std::string faults;
    newest_step(files, kRootPath, &faults);
    return faults;
  }
  /// Of the log since the last call.
  Names warnings() {
    Names all;
    LogRecord record;
    while (log.pop(&record)) all.push_back(record.message);
    return all;
  }

  SimFiles files;
  Env env;
  Log log;
  CommitOptions commit;
  std::unique_ptr<RootWriter> writer;
};

/// The error that an action ends with.
template <class Action>
Error caught(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return Error("invariant", "nothing was thrown");
}

/// The JSON value of a field.
inline std::string field_of(const Error& error, const std::string& key) {
  for (const auto& [name, value] : error.fields()) {
    if (name == key) return value;
  }
  return "";
}

}  // namespace plait::test
