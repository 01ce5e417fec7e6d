// The trace of a process over some steps (keys trace.steps and trace.directory): room for it, the
// idle share, and the file `trace-<first rank>.json`.
//
// A step is never lost to its trace. That a file can be made is tried when the trace begins; what
// fails when it is written leaves a warning in the log and the error in the report, and the step
// that ended keeps its result.
//
// Thread: that of the engine's calls, with the ranks out of theirs; `report` any.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/trainer/idle_meter.h"
#include "engine/trainer/rank_set.h"
#include "kernels/base/env.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace plait {

class StepTrace {
 public:
  /// `env` and `log` outlive this; `log` may be null. `first_rank` is that of the process.
  StepTrace(Env& env, Log* log, int64_t first_rank);

  /// Throws what the system answers unless a file can be made in `directory`. Empty: no file is
  /// wanted.
  void check_directory(const std::string& directory) const;

  /// The next `steps` steps are traced; 0: none. An earlier trace is dropped. Takes all memory that
  /// the steps need. Throws `too_large` with nothing changed, `no_memory` with no trace.
  void begin(RankSet& ranks, int64_t steps);
  bool is_on() const { return left_ > 0; }

  /// After the passes of a call, while the trace is on.
  void end_call(RankSet& ranks);
  /// After a step; it closes the call. The last one writes the file, when `directory` is not empty.
  void end_step(RankSet& ranks, const std::string& directory) noexcept;

  /// JSON: state ("none", "on", "done"), steps, idle shares, ranks, files, error.
  std::string report() const;

 private:
  struct RankPlace {
    int64_t rank = 0;
    Coordinates at;
  };
  std::string path_in(const std::string& directory) const;
  void drop(RankSet& ranks);
  void finish(RankSet& ranks, const std::string& directory);
  void simulate(const RankSet& ranks);
  void write(const std::string& path, const std::string& text);
  void fail(const Error& error);

  Env& env_;
  Log* log_;
  int64_t first_rank_;
  int64_t left_ = 0;          // steps to trace
  std::vector<size_t> seen_;  // by local rank: events that the meter has had
  mutable std::mutex mutex_;  // guards what follows, which `report` reads
  IdleMeter meter_{0, 0};
  std::vector<RankPlace> places_;
  int64_t steps_ = 0, left_out_ = 0;
  bool is_begun_ = false, is_done_ = false;
  std::optional<double> even_share_, simulated_share_;
  std::string file_;  // the one that was written
  std::optional<Error> error_;
};

}  // namespace plait
