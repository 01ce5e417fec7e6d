// Brings a checkpoint into the ranks of a world. All processes choose the same step, prove it and
// fill their ranks in lockstep: a step that fails in any of them is dropped by all, and the next
// older one of the root is tried.
//
// Where the live state is the one that the configuration draws, values go straight into it, and a
// failure is undone by drawing again. Elsewhere a first pass reads and proves all and changes
// nothing; a failure of the second loses the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store/step_reader.h"
#include "engine/trainer/load_rounds.h"
#include "engine/trainer/load_source.h"

namespace plait {

class Loader {
 public:
  struct Options {
    const char* call = "";  ///< name of the RankSet::Call, which prepares together
    std::string path;
    LoadingRun run;
    bool is_fresh = false;  ///< the live state can be drawn again
    int64_t limit_ms = 0;
  };
  /// `ranks` and `engine` are borrowed.
  Loader(RankSet& ranks, const EngineOptions& engine, Options options);
  ~Loader();

  /// Inside RankSet::Call::prepare; throws `cancelled` after a request of a stop, in every process.
  /// On return masters, and moments where they are taken, hold the
  /// values on all ranks; nothing else has changed. Errors leave the state as it was, but for
  /// `must_undo`, or have the disposition of a lost engine.
  void run();

  /// Live state was written to and can be drawn again.
  bool must_undo() const { return rounds_.is_touched() && is_in_place_; }
  bool is_touched() const { return rounds_.is_touched(); }

  // After run.
  const LoadSource& source() const { return *source_; }
  const ResumeDecision& decision() const { return decision_; }
  const std::vector<SkippedStep>& skipped() const { return skipped_; }

 private:
  /// Orders the steps of a root; newest is greatest.
  using StepOrder = std::pair<uint64_t, int64_t>;  // sequence, step
  /// The step that one process would take.
  struct Candidate {
    bool is_fresh = false, is_root = false;
    std::string name;  ///< empty: there is none
    StepOrder order;
    std::string identity;
    std::optional<Error> error;
  };
  static std::string encode(const Candidate& candidate);
  static Candidate decode(const Answer& answer);

  void list();
  Candidate open_next();
  void open(Candidate* candidate);
  bool choose();
  bool prove();
  void copy();
  void drop(const Candidate& candidate, const Error& error);
  Error nothing_left() const;
  void collect_pieces();

  RankSet& ranks_;
  const EngineOptions& engine_;
  Options options_;
  LoadRounds rounds_;
  bool is_listed_ = false, is_root_ = false, may_fall_back_ = false, is_in_place_ = false;
  std::vector<Candidate> candidates_;  // newest first
  Candidate chosen_;
  std::unique_ptr<LoadSource> source_;
  ResumeDecision decision_;
  std::vector<SkippedStep> skipped_;
  std::vector<StatePiece> pieces_;  // of all local ranks
  DigestSums own_sums_;
};

}  // namespace plait
