// Saves of a live engine: the agreement that opens one, the snapshot, and the thread that writes
// them one after the other beside training.
//
//   host's thread    open (agree, lock the root, make its directory) · snapshot · start
//   saver's thread   write, seal, commit (see save_run.h), in the order of the calls
//
// A root stays locked from the first save into it until `close`, or the end of this object.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/store/root.h"
#include "engine/trainer/engine.h"
#include "engine/trainer/rank_set.h"
#include "engine/trainer/save_job.h"
#include "engine/trainer/save_run.h"
#include "kernels/base/error.h"

namespace plait {

/// What the engine knows of a save when it opens.
struct SaveRequest {
  std::string root;
  Manifest manifest;  ///< all that processes know alike: see describe_run
  CheckpointConfig options;
  uint64_t config = 0;     ///< fingerprint
  bool may_retain = true;  ///< old steps may go
};

struct SaveCounts {
  int64_t durable = 0, failed = 0, skipped = 0;
};

class Saver {
 public:
  /// Both are borrowed; nothing is done before the first save.
  Saver(RankSet& ranks, const EngineOptions& options);
  /// Gives up what is not yet durable.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Inside RankSet::Call::prepare, which prepares together. `describe` looks at this process
  /// alone; what it throws is thrown in all. On return every process has the step's directory
  /// before it and memory for its values, or the save is skipped.
  std::shared_ptr<SaveJob> open(FunctionRef<SaveRequest()> describe, int64_t limit_ms);
  /// On the thread of each local rank: proves weights and masters consistent, and copies.
  void snapshot(const SaveJob& job, int64_t local);
  /// Hands over a save whose snapshot is complete.
  std::shared_ptr<AsyncOperation> start(const std::shared_ptr<SaveJob>& job);
  /// Ends a save that was opened and not started.
  void drop(SaveJob& job);

  /// Waits until no save is under way; false when `timeout_ms` (−1: no limit but their own) is over
  /// before.
  bool wait(int64_t timeout_ms);
  /// Any thread: saves that are not yet committed end with `error`, soon.
  void abandon(const Error& error);
  /// Waits for saves, abandons what is left, unlocks all roots. No save comes after it.
  void close(int64_t timeout_ms);
  /// Any thread.
  SaveCounts counts() const;

 private:
  bool is_first_process() const { return options_.world->own_peer() == 0; }
  std::vector<Answer> agree(const char* round, int64_t limit_ms, FunctionRef<std::string()> work);
  bool check_room(const CheckpointConfig& options, int64_t deadline_ns);
  std::string begin_step(const SaveJob& job);
  RootWriter* find_root(const std::string& path) const;
  void check_not_pending(const SaveJob& job);
  void prepare_local(SaveJob* job);
  void start_thread();
  void run();
  void write(SaveJob& job);
  void settle(SaveJob& job, bool is_durable);
  bool is_idle() const { return queue_.empty() && running_ == nullptr; }
  void hurry();
  std::optional<Error> abandoned() const;

  RankSet& ranks_;
  EngineOptions options_;
  Error freed_;                          // made in advance: the destructor may find no memory
  std::atomic<bool> is_patient_{false};  // the saver's thread is in an exchange that hurry ends

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<RootWriter>> roots_;  // of rank 0's process
  std::vector<std::unique_ptr<SaveStaging>> free_;
  int64_t staged_ = 0;  // saves that hold staging
  std::deque<std::shared_ptr<SaveJob>> queue_;
  std::shared_ptr<SaveJob> running_;
  uint64_t started_ = 0;
  SaveCounts counts_;
  std::optional<Error> abandoned_, broken_;
  bool is_stopping_ = false, has_ended_ = false;

  std::thread thread_;
};

}  // namespace plait
