// The checkpoints of a run: saved beside training, reported when they have ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/host.h"

namespace plait::cli {

class RunSaves {
 public:
  /// `root`: key run.checkpoint; empty: nothing is ever saved. `every`: steps between two saves, 0:
  /// the end of the run alone. `is_silent`: another process reports.
  RunSaves(Host& host, const Engine& engine, std::string root, int64_t every, bool is_silent);

  /// The state after `step` steps is in the root already.
  void note_saved(int64_t step) { saved_step_ = step; }
  /// After each step: begins a save where one is due, and reports those that have ended. A save
  /// that fails is reported and nothing more, unless it took the engine with it.
  void after_step(int64_t step);
  /// At the end of a run: waits for saves under way, and saves the state after `step` steps unless
  /// that is done. What that last save failed with, if it did. Signals do not cancel it.
  std::optional<Failure> finish(int64_t step);

 private:
  struct Pending {
    int64_t step = 0;
    Operation operation;
  };

  std::optional<Failure> begin(int64_t step);
  std::optional<Failure> take(const Pending& pending);
  void report_failure(int64_t step, const Failure& failure);
  void report_end(int64_t step, const std::string& report);

  Host& host_;
  const Engine& engine_;
  std::string root_;
  int64_t every_;
  bool is_silent_;
  int64_t saved_step_ = -1;
  std::vector<Pending> pending_;
};

/// Makes sure, before a run starts, that its saves have a place: the parent of `root` is there.
void check_root(const std::string& root);

}  // namespace plait::cli
