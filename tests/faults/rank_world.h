// A world of real Ranks, one thread each, open to faults in the middle of a step: what an engine of
// one process runs, with a hook on every gradient and a look at every copy of the state.
//
// One thread calls; hooks run on the rank's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/trainer/batch.h"
#include "engine/trainer/rank.h"
#include "engine/trainer/rank_crew.h"

namespace plait::test {

/// The gradients that one micro-batch gives one use of a unit.
struct GradientEvent {
  const Rank& rank;
  int64_t chunk;
  int64_t micro;
  Unit& unit;
  GradientUse use;

  /// Of a parameter of the unit, in the memory that this use writes.
  TensorView gradient(const Parameter& parameter) const {
    return use == GradientUse::kSecond ? parameter.second_gradient : parameter.gradient;
  }
};
using GradientHook = std::function<void(const GradientEvent&)>;

/// The training state by logical tensor in canonical order, each element once.
struct WorldState {
  std::vector<std::vector<float>> masters, moment1, moment2;
  /// Empty: all holders of an element hold its very bits, weights are rounded masters, padding is
  /// zero. Else what is not so.
  std::string fault;
};

class RankWorld {
 public:
  explicit RankWorld(const Config& config);
  ~RankWorld();

  /// Complete gradients of a use, before anything sums them up. They may be changed.
  void on_gradient(GradientHook hook) { on_gradient_ = std::move(hook); }
  /// Memory that a pass is about to overwrite with gradients.
  void on_overwrite(GradientHook hook) { on_overwrite_ = std::move(hook); }

  struct Result {
    Update update;
    LossSum sum;  ///< of the rank's own micro-batches, on ranks that hold the loss
  };
  /// A whole step on a global batch, by rank. Throws what a rank throws.
  std::vector<Result> step(const Batch& batch);

  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  const Rank& rank(int64_t index) const { return *ranks_[static_cast<size_t>(index)]; }
  const Settings& settings() const { return settings_; }

  /// What any two ranks differ in of what all must know alike: the decisions of a step, and scale,
  /// rate and counters after it. Empty: nothing.
  std::string disagreement(const std::vector<Result>& results) const;
  WorldState state() const;
  /// All bytes that an update may change, by rank.
  std::vector<std::string> bits() const;

 private:
  class Spy;
  void run(const std::function<void(int64_t index)>& body);

  Settings settings_;
  Mesh mesh_;
  ThreadHooks hooks_;
  std::atomic<bool> is_aborted_{false};
  std::atomic<uint64_t> progress_{0};
  GradientHook on_gradient_, on_overwrite_;
  int64_t samples_ = 0;
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<Spy>> spies_;
  std::unique_ptr<RankCrew> crew_;
};

}  // namespace plait::test
