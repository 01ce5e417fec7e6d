// The part of a save that runs beside training, on the saver's thread: every process writes the
// shards of its local ranks; digests make the identity; rank 0's process proves that the step is
// whole and commits it. Between the parts stand rounds, in which all processes hear how it went for
// each, so that all end alike.
//
//   round     each process gives                       then
//   written   digests of what it wrote                 all know the identity; shards are sealed
//   sealed    its files; its wish to cancel, if any    rank 0's process commits: no way back
//   ended     (rank 0's) path and sequence             all report it
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store/root.h"
#include "checkpoint/store/shard_writer.h"
#include "engine/trainer/engine.h"
#include "engine/trainer/save_job.h"
#include "engine/trainer/save_round.h"

namespace plait {

class SaveRun {
 public:
  struct Place {
    const EngineOptions* engine = nullptr;
    RootWriter* root = nullptr;  ///< of rank 0's process, else null
    /// Why all saves are to be given up; nothing: they are not.
    std::function<std::optional<Error>()> abandoned;
    /// Called once, when nothing of the job is needed any more and before its operation ends.
    std::function<void(bool is_durable)> settle;
    /// Whether an exchange is under way that an abandonment ends at once.
    std::atomic<bool>* is_patient = nullptr;
  };
  SaveRun(SaveJob& job, const Place& place);
  ~SaveRun();

  /// Ends the operation, whatever happens. Never throws.
  void run();
  /// The processes no longer know of each other where they are: no later save can succeed.
  std::optional<Error> take_broken() { return std::move(broken_); }

 private:
  void write();
  void seal(const std::vector<Answer>& digests);
  void commit(const std::vector<Answer>& files);
  void on_writers(FunctionRef<void(ShardWriter&)> work);
  std::vector<Answer> round(const char* phase, Answer own, bool may_give_up);
  int64_t patience_ms(bool is_until_deadline) const;
  std::optional<Error> trouble() const;
  std::string digests() const;
  std::string commit_step();
  std::string info() const;
  std::string report(const std::string& committed) const;
  void end_badly(std::exception_ptr failure) noexcept;

  SaveJob& job_;
  const Place place_;
  Env& env_;
  World& world_;
  std::vector<std::unique_ptr<ShardWriter>> writers_;  // of local ranks that own something
  std::vector<SavedFile> files_;                       // of them, once sealed; then of all
  std::atomic<bool> is_stopping_{false};
  std::optional<Error> broken_;
};

}  // namespace plait
