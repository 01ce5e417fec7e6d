// A root directory of checkpoints: names, the lock of its writer, the order of steps, the commit
// of a new one, retention and cleaning up. Rank-local: only the process of rank 0 changes a root.
//
//   ROOT/LOCK                       flock'd while a writer lives
//   ROOT/LATEST                     for people and scripts
//   ROOT/step-000000001000/         has this name only when complete and durable
//   ROOT/tmp-000000001000-<hex>/    being written
//   ROOT/trash-000000001000-<hex>/  being deleted
//
// Newest means highest sequence, never highest step or latest time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "kernels/base/env.h"
#include "kernels/base/log.h"

namespace plait {

/// "step-000000001000". Throws `too_large` for a step of more than 12 digits.
std::string step_name(int64_t step);
/// The step of such a name; nothing for any other name.
std::optional<int64_t> parse_step_name(std::string_view name);

/// A step directory whose MANIFEST has a right trailer.
struct StepEntry {
  std::string name;
  int64_t step = 0;
  uint64_t sequence = 0;
};

/// One that has not, and why it does not count.
struct BadStep {
  std::string name;
  std::string reason;  ///< message of the error
};

struct RootListing {
  std::vector<StepEntry> steps;  ///< newest first
  std::vector<BadStep> bad;      ///< by name
};
/// Reads no more than trailers and what they cover. `no_checkpoint` when `root` is no directory.
RootListing list_root(Files& files, const std::string& root);

/// What a save wants of the root.
struct CommitOptions {
  bool may_replace = false;       ///< key checkpoint.on_existing
  bool is_manifest_last = false;  ///< key checkpoint.commit
};

struct RetentionOptions {
  int64_t keep_last = 0;   ///< 0 removes nothing ever
  int64_t keep_every = 0;  ///< steps divisible by it stay; 0: none for that reason
};

/// The writer's hold on a root, from its first save until its engine closes. Any thread may call;
/// calls take turns. `env` and the log, which may be null, outlive it.
class RootWriter {
 public:
  /// Makes the root (its parent must exist; 0700), takes LOCK without waiting (`locked` with the
  /// text of its holder: run id, host, pid, since), and writes its own text into it.
  static std::unique_ptr<RootWriter> open(Env& env, const std::string& root, std::string run_id,
                                          Log* log, int32_t rank);
  ~RootWriter();

  /// Step 1: removes what dead writers left (tmp-*, trash-*; reported to the log), refuses a step
  /// that is there (`step_exists`) unless it may be replaced, requires 1.05 × total_bytes of space
  /// (`no_space` with need and free), makes the temporary directory, whose path is returned.
  std::string begin(int64_t step, int64_t total_bytes, const CommitOptions& options);

  /// Steps 7 and 8: proves that the files of the manifest are there in their sizes (`io_error`);
  /// INFO.json, MANIFEST with the next sequence, F3 its file, F4 the directory, the rename, F5 the
  /// root. On return the step is durable. Returns its path. When it throws, the step has not its
  /// name (`step_exists`: another has), or was renamed back; `discard` follows.
  std::string commit(const std::string& temporary, const Manifest& manifest,
                     const std::string& info_json, const CommitOptions& options);

  /// Step 9: LATEST (F6 its file, F7 the root). A failure is a warning in the log.
  void point_latest(int64_t step);

  /// Step 10: what the options do not keep goes to trash (F8) and is deleted. Keeps the newest
  /// valid step always, the one that LATEST names, and a step that a reader has open. A failure is
  /// a warning in the log.
  void retain(const RetentionOptions& options);

  /// Ends a save that failed: its directory goes to trash and is deleted, as far as that works.
  void discard(const std::string& temporary) noexcept;

  const std::string& path() const;

 private:
  struct State;
  explicit RootWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace plait
