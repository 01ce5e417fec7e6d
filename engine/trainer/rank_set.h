// The local ranks of one process and the calls that run on all of them: state, limits, errors, and
// what processes agree on before a call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/world.h"
#include "engine/config/config.h"
#include "engine/trainer/engine.h"
#include "engine/trainer/rank.h"
#include "engine/trainer/rank_crew.h"
#include "kernels/base/function_ref.h"

namespace plait {

class RankSet {
 public:
  RankSet(const Settings& settings, const EngineOptions& options);
  ~RankSet();

  /// Builds the ranks on their threads and draws the weights. Collective.
  void start(const Config& config, int64_t timeout_ms);

  EngineState state() const { return state_.load(); }
  /// Throws busy, closed or aborted unless a call may start.
  void check_usable() const;
  /// No call from now on but those that look. Throws `busy` during a call.
  void close(int64_t timeout_ms);
  /// Local and immediate: running calls end with ABORTED/aborted.
  void abort();
  void request_stop() { is_stop_requested_.store(true); }
  bool is_stop_requested() const { return is_stop_requested_.load(); }
  void clear_stop() { is_stop_requested_.store(false); }

  /// One call: `prepare` on this process, an agreement of all processes that they make the same
  /// call with the same `value` and that none of them failed to prepare, then part(local) on the
  /// thread of every local rank. Errors of `prepare` leave the engine as it was, in every
  /// process. An error of a part ends the parts of all ranks.
  struct Call {
    const char* name = "";
    std::string value;  ///< one line; may stay empty where is_alone()
    std::string rows;   ///< digest of what this process supplies, compared as compare_rows does
    std::optional<FunctionRef<void()>> prepare;
    /// `prepare` holds exchanges of its own under `name`, and ends alike in every process: nothing
    /// is left to agree on.
    bool prepares_together = false;
    /// After a deadline it may run on for a moment: what it names belongs to the engine or to it.
    std::function<void(int64_t local)> part;
    int64_t timeout_ms = -1;
  };
  void run(const Call& call);

  /// A step took so long: the limit of stalls follows the median.
  void remember_step(double seconds);

  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  Rank& rank(int64_t local) { return *ranks_[static_cast<size_t>(local)]; }
  const Rank& rank(int64_t local) const { return *ranks_[static_cast<size_t>(local)]; }
  World& world() const { return *options_.world; }
  bool is_alone() const { return world().peers().size() == 1; }
  /// The first ranks of all processes; used on the thread of local rank 0. Null when alone.
  Communicator* leaders() { return leaders_.get(); }
  const std::atomic<uint64_t>& progress() const { return progress_; }

 private:
  void begin();
  void end();
  void lose();
  void tell(const Error& error);
  void agree(const Call& call);
  void compare_configs(const Config& config, int64_t timeout_ms);
  void build(int64_t local);
  void run_parts(const Call& call);
  /// A local rank whose part has not ended: one that waits for no other, where there is one.
  struct Suspect {
    int32_t rank = 0;
    std::string phase;  ///< empty: nothing is known
    bool is_waiting = false;
  };
  Suspect suspect() const;
  void warn_of_standstill(const Call& call, int64_t waited_ms) const;
  int64_t stall_limit_ms() const;
  int64_t stall_warning_ms() const;
  [[noreturn]] void throw_failure();
  [[noreturn]] void throw_late(RankCrew::End end, const Call& call);
  void on_failure(int64_t local, const std::exception_ptr& failure);

  Settings settings_;
  EngineOptions options_;
  Mesh mesh_;
  uint32_t first_group_ = 0;
  std::atomic<EngineState> state_{EngineState::kReady};
  std::atomic<bool> is_aborted_{false};
  std::atomic<bool> is_stop_requested_{false};
  std::atomic<uint64_t> progress_{0};
  std::array<double, 9> recent_seconds_{};
  int64_t timed_steps_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unique_ptr<Communicator> leaders_;
  std::unique_ptr<RankCrew> crew_;  // ends before the ranks go
};

}  // namespace plait
