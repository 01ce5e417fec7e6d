// Saves, loads and proofs of checkpoints through the public interface, timed.
#pragma once

#include <plait/plait.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/engine_run.h"

namespace plait::bench {

/// A save that has begun. The constructor is plait_checkpoint_save.
class Save {
 public:
  /// A new step in `root`. Throws what the call reports.
  Save(EngineRun& engine, const std::string& root);
  ~Save();
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  /// Of the call: what training waits for.
  double stall_seconds() const { return stall_seconds_; }
  /// Until the step is durable; throws when it is not. Seconds since the call began.
  double wait();
  /// JSON: where the step is, bytes, seconds from the call to the end. After `wait`.
  std::string report() const;

 private:
  plait_op* op_ = nullptr;
  double begin_ = 0, stall_seconds_ = 0;
};

struct LoadTimes {
  double seconds = 0;
  double processor_seconds = 0;  ///< of all threads of this process …
  double system_seconds = 0;     ///< … of them in the system
  int64_t extra_bytes = 0;       ///< most that became resident; −1: the system does not say
};

/// plait_checkpoint_load of the newest step of `root`.
LoadTimes load(EngineRun& engine, const std::string& root);

/// plait_checkpoint_verify of the newest step of `root`, opened before; throws when it is damaged.
LoadTimes verify(EngineRun& engine, const std::string& root, bool is_full);

/// Hash of the whole stored bits of each (logical tensor, kind).
using StateHashes = std::map<std::pair<std::string, int64_t>, uint64_t>;
/// What lives in the ranks, without gradients.
StateHashes live_state(EngineRun& engine);
/// What the newest step of `root` holds.
StateHashes saved_state(EngineRun& engine, const std::string& root);
/// Throws when the step does not hold the weights or moments of `live`, every bit of them.
void require_saved(const StateHashes& saved, const StateHashes& live);

/// Of the values in the newest step of `root`.
int64_t state_bytes(EngineRun& engine, const std::string& root);
/// Of all files of the one step in `root`, by path.
std::vector<std::pair<std::string, int64_t>> step_files(const std::string& root);
/// Removes every step of `root`, into which nobody saves now.
void remove_steps(const std::string& root);

}  // namespace plait::bench
