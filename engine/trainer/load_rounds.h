// The rounds in which the processes of a world go through a load: each does its work, tells all
// what came of it, and all decide alike from the same answers.
//
// Thread: the one of the call, inside RankSet::Call::prepare.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/trainer/answers.h"
#include "engine/trainer/rank_set.h"
#include "kernels/base/error.h"
#include "kernels/base/function_ref.h"

namespace plait {

class LoadRounds {
 public:
  /// `name`: of the call, which other processes must be in too. `options` and `ranks` are borrowed.
  LoadRounds(RankSet& ranks, const EngineOptions& options, const char* name, int64_t limit_ms);

  using Work = FunctionRef<std::string(const std::atomic<bool>& is_cancelled)>;
  /// Does the work on a library thread, which is told to stop when the time is over, the engine
  /// lost or a stop requested, and gives its text or error to all; after a request the error is
  /// `cancelled`. Answers by peer. Throws when the world fails.
  std::vector<Answer> run(const Work& work);

  /// From now on live state may not be what it was: a world that fails leaves the engine lost.
  void touch() { is_touched_ = true; }
  bool is_touched() const { return is_touched_; }
  /// From now on work that is done counts, however late, and requests of a stop wait.
  void commit() { is_committed_ = true; }

 private:
  Answer answer(const Work& work);
  Answer watch(const Work& work);
  bool must_stop() const { return !is_committed_ && ranks_.is_stop_requested(); }
  Error stopped() const;
  std::vector<Answer> tell(const Answer& own);

  RankSet& ranks_;
  const EngineOptions& options_;
  const char* name_;
  int64_t limit_ms_, deadline_ns_;
  bool is_touched_ = false, is_committed_ = false;
  bool has_met_ = false;  // all processes are in the load
};

}  // namespace plait
