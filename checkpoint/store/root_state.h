// What a writer of a root knows and does; one mutex guards all of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/store/root.h"
#include "kernels/base/error.h"
#include "kernels/base/mutation.h"

namespace plait {

struct RootWriter::State {
  State(Env& env, std::string root, Log* log, int32_t rank)
      : env(env), files(env.files), root(std::move(root)), log(log), rank(rank) {}

  Env& env;
  Files& files;
  const std::string root;
  Log* const log;
  const int32_t rank;
  std::unique_ptr<File> lock;
  std::mutex mutex;
  std::set<std::string> own;         ///< names that clean-ups of this process leave alone
  std::set<std::string> unfinished;  ///< those of them that `discard` may delete
  uint64_t last_sequence = 0;
  bool is_manifest_last = false;  ///< of the last save
  std::optional<int64_t> latest;  ///< step that LATEST names, if it names one
  bool is_latest_known = false;   ///< `latest` holds, after a power loss too

  std::string in_root(const std::string& name) const { return join_path(root, name); }
  void warn(const std::string& message) const {
    if (log != nullptr) log->write(LogLevel::kWarning, rank, "checkpoint", message);
  }
  void warn_of(const char* what, const Error& error) const {
    warn(std::string(what) + ": " + error.message());
  }
  /// Runs an action whose failure is a warning.
  bool attempt(const char* what, const std::function<void()>& action) const {
    try {
      action();
      return true;
    } catch (const Error& error) {
      warn_of(what, error);
      return false;
    }
  }

  void sync_root(Mutation skipped) {
    if (!is_mutated(skipped)) files.sync_directory(root);
  }

  /// Removes what writers that are gone have left. What cannot be removed is a warning.
  void clean_up();
  bool is_dead(const std::string& name);
  void remove_dead(const std::string& name);
  /// Whether a reader has the step of a directory open. If not, `*held` keeps readers away.
  bool is_read(const std::string& directory, std::unique_ptr<File>* held);
  /// Deletes an entry of the root. Its name as a step is gone for good before its files go.
  void throw_away(const std::string& name);
  /// The same where directories are not renamed in one step: without MANIFEST a step is none.
  void remove_in_place(const std::string& directory);
  void require_space(int64_t total_bytes);
  uint64_t next_sequence();
  /// Gives a whole directory its name, durably: the commit point. If that fails, names are as they
  /// were, or else nothing of it may be deleted.
  void publish(const std::string& temporary, const std::string& target, bool is_replacing);
  /// The same where directories are not renamed in one step.
  void publish_manifest(const std::string& directory);
  void discard(const std::string& temporary);
  void retain(const RetentionOptions& options);
  /// Makes sure of what LATEST names.
  void learn_latest();
};

}  // namespace plait
