// One rank: device, stage, optimizer and executor, and the arithmetic of a step. Everything here
// runs on the rank's thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/settings.h"
#include "engine/model/initial_weights.h"
#include "engine/model/logical_tensors.h"
#include "engine/model/stage.h"
#include "engine/optimizer/learning_rate.h"
#include "engine/optimizer/loss_scale.h"
#include "engine/optimizer/optimizer.h"
#include "engine/pipeline/executor.h"
#include "engine/schedule/schedule.h"
#include "kernels/ops/kernels.h"

namespace plait {

/// Where a logical tensor's values lie on this rank.
struct TensorPlace {
  int64_t unit = 0;
  const Parameter* parameter = nullptr;
  const Segment* segment = nullptr;
};

/// What the optimizer part of a step decided, from global sums.
struct Update {
  enum class Kind { kApplied, kSkipped, kNonfinite, kScaleExhausted };
  Kind kind = Kind::kApplied;
  double grad_norm = 0;
  double lr = 0;
  int64_t nonfinite_tensor = -1;  ///< in canonical order, −1: none
};

class Rank {
 public:
  struct Flags {
    const std::atomic<bool>* is_aborted = nullptr;
    std::atomic<uint64_t>* progress = nullptr;
  };
  Rank(const Settings& settings, Clock& clock, const ThreadHooks& hooks, const Flags& flags);

  /// Draws the initial weights.
  void draw_weights();
  /// After masters were written: rounds and packs.
  void masters_changed();
  /// After masters were replaced from outside a run: the state of a new run.
  void reset_optimizer() { optimizer_->reset(); }

  /// Forward and backward over `micro_batches`; adds to the gradients when `arguments` says so.
  RunResult accumulate(const RunArguments& arguments, int64_t micro_batches);
  /// Forward alone, without dropout.
  RunResult evaluate(const RunArguments& arguments, int64_t micro_batches);
  /// Normalises by `sum`, decides, clips, updates.
  Update update(const LossSum& sum);
  /// logits[0, padded V) of the row before the last of `tokens` is predicted: runs the window
  /// tokens[0, count) and leaves logits of its last row.
  void next_logits(const int32_t* tokens, int64_t count, float* logits);

  /// Factor that turns a stored gradient sum into the mean over `targets`.
  double gradient_factor(int64_t targets) const;
  float gradient_seed() const;  ///< S/N₀
  double loss_scale() const { return loss_scale_.scale(); }
  int64_t updates() const { return applied_; }
  LearningRate& learning_rate() { return learning_rate_; }

  const std::vector<LogicalTensor>& tensors() const { return tensors_; }
  const std::vector<TensorPlace>& places(int64_t tensor) const {
    return places_[static_cast<size_t>(tensor)];
  }
  Optimizer& optimizer() { return *optimizer_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  const Stage& stage() const { return *stage_; }
  const Executor& executor() const { return *executor_; }
  const MemoryLedger& ledger() const { return device_->ledger(); }
  Device& device() { return *device_; }
  const Schedule& schedule() const { return schedule_; }
  /// Largest number of micro-batches that a call may have; 0: any.
  int64_t most_micro_batches() const { return most_micro_batches_; }
  int64_t longest_window() const { return longest_window_; }
  std::vector<std::pair<std::string, std::string>> kernel_names();

 private:
  void build_optimizer();
  void measure();
  const std::vector<Instruction>& list(int64_t micro_batches);

  Settings settings_;
  std::unique_ptr<Device> device_;
  Kernels kernels_;
  Workspace workspace_;
  OpContext context_;
  ScheduleShape shape_;
  Schedule schedule_;          // of the last number of micro-batches
  Schedule forward_schedule_;  // likewise
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Executor> executor_;
  LossScale loss_scale_;
  LearningRate learning_rate_;
  std::vector<LogicalTensor> tensors_;
  std::vector<std::vector<TensorPlace>> places_;
  int64_t applied_ = 0;  // updates of the run
  int64_t most_micro_batches_ = 0;
  int64_t longest_window_ = 0;
};

}  // namespace plait
