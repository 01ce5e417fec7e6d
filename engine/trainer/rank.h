// One rank: device, stages, optimizer, transfers and executor, and the arithmetic of a step.
// Everything here but the constants of its place runs on the rank's thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/fabric.h"
#include "engine/comm/mesh.h"
#include "engine/config/settings.h"
#include "engine/layers/initial_weights.h"
#include "engine/model/logical_tensors.h"
#include "engine/model/stage.h"
#include "engine/optimizer/learning_rate.h"
#include "engine/optimizer/loss_scale.h"
#include "engine/optimizer/optimizer.h"
#include "engine/pipeline/executor.h"
#include "engine/pipeline/transfers.h"
#include "engine/schedule/schedule.h"
#include "engine/trainer/pace_meter.h"
#include "engine/trainer/replica_check.h"
#include "kernels/base/error.h"
#include "kernels/ops/kernels.h"

namespace plait {

/// Where values of a logical tensor lie on this rank.
struct TensorPlace {
  int64_t chunk = 0, unit = 0;
  const Parameter* parameter = nullptr;
  const Segment* segment = nullptr;
  bool is_first_holder = true;  ///< of the ranks of a tensor group that hold the same box
  bool is_tied_end = false;     ///< one of the two copies of a tied embedding
  bool is_tied_copy = false;    ///< the one at the end of the pipeline
};

/// What the closing part of a step decided, from global sums: equal on every rank.
struct Update {
  enum class Kind { kApplied, kSkipped, kNonfinite, kScaleExhausted };
  Kind kind = Kind::kApplied;
  GlobalSums sums;
  double grad_norm = 0;
  double lr = 0;
  double loss_scale = 1;     ///< in force during the step
  bool is_compared = false;  ///< replicas were
  /// What the comparison found, where that is no error of the step.
  std::optional<Error> divergence;
  bool has_paces = false;  ///< Rank::paces() are new
};

class Rank final : private StepHandler {
 public:
  struct Place {
    Mesh mesh{1, 1, 1};
    int64_t rank = 0;
    int threads = 1;           ///< of its pool
    uint32_t first_group = 1;  ///< ids of this engine's groups in its fabric start here
  };
  struct Flags {
    const std::atomic<bool>* is_aborted = nullptr;
    std::atomic<uint64_t>* progress = nullptr;
    const std::atomic<bool>* is_stop_requested = nullptr;
  };
  Rank(const Settings& settings, Fabric& fabric, const Place& place, Clock& clock,
       const ThreadHooks& hooks, const Flags& flags);
  ~Rank() override;

  /// Draws the initial weights of what this rank owns. Collective.
  void draw_weights();
  /// After masters were written: rounds, gathers and packs. Collective.
  void masters_changed();
  /// After masters and moments were replaced: goes on where a run was after so many updates. A loss
  /// scale that the run had not starts anew.
  void resume(int64_t updates, const std::optional<LossScale::State>& scale);
  /// After masters were replaced from outside a run: moments, counts and loss scale of a new run.
  void restart();

  /// Throws `argument` when a call of so many micro-batches does not fit the schedule or the
  /// buffers. Any thread.
  void check_micro_batches(int64_t micro_batches) const;
  /// A part of a step over `micro_batches`: passes, closing, or both. Losses add up from call to
  /// call until a step closes. `compared_step`: the number of the step if its close compares
  /// replicas, else 0. Collective, as all below.
  RunResult run(RunArguments arguments, int64_t micro_batches, int64_t compared_step = 0);
  /// The decision of the last run that closed a step.
  const Update& update() const { return update_; }
  /// Whether copies of what ranks hold alike differ. Nothing where the layout has no copies or the
  /// configuration wants no comparisons.
  std::optional<Divergence> find_divergence();
  /// Sums of the passes since the last step, over the whole world.
  GlobalSums pending_sums();
  /// Ends an accumulation without a step.
  void drop_pending();
  /// Forward alone, without dropout; adds to `sum`, this rank's share.
  void evaluate(const RunArguments& arguments, int64_t micro_batches, LossSum* sum);
  GlobalSums add_up(const LocalSums& sums) { return optimizer_->add_up(sums); }
  /// Runs the window tokens[0, count) and leaves logits [padded V] of its last row on the ranks of
  /// the last stage; true there.
  bool next_logits(const int32_t* tokens, int64_t count, float* logits);
  /// id of the last stage's ranks → id on all.
  int32_t share_token(int32_t id);

  /// Factor that turns a stored gradient sum into the mean over `targets`.
  double gradient_factor(int64_t targets) const;
  float gradient_seed() const;  ///< S/N₀
  double loss_scale() const { return loss_scale_.scale(); }
  const LossScale& scaler() const { return loss_scale_; }
  int64_t updates() const { return applied_; }
  LearningRate& learning_rate() { return learning_rate_; }

  int64_t rank() const { return place_.rank; }
  const Coordinates& at() const { return at_; }
  const Mesh& mesh() const { return place_.mesh; }
  bool holds_loss() const { return holds_loss_; }
  /// Logits of next_logits.
  int64_t padded_vocabulary() const { return stages_.back()->padded_vocabulary(); }
  const std::vector<LogicalTensor>& tensors() const { return tensors_; }
  const std::vector<TensorPlace>& places(int64_t tensor) const {
    return places_[static_cast<size_t>(tensor)];
  }
  Optimizer& optimizer() { return *optimizer_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }
  /// {first layer, layers} of each chunk.
  const std::vector<std::pair<int64_t, int64_t>>& layers() const { return layers_; }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  const OperationRing& ring() const;
  const MemoryLedger& ledger() const { return device_->ledger(); }
  Device& device() { return *device_; }
  const Device& device() const { return *device_; }
  /// Of a whole global batch.
  const ScheduleShape& shape() const { return shape_; }
  /// Of the last call with gradients.
  const Schedule& schedule() const { return schedule_; }
  int64_t longest_window() const { return longest_window_; }
  std::vector<std::pair<std::string, std::string>> kernel_names();
  const Communicator& group(Axis axis) const { return *groups_[static_cast<size_t>(axis)]; }
  /// Blocked in collectives of the tensor and data axes so far.
  int64_t communication_ns() const;
  /// Of every rank of the world over the last window; see Update::has_paces.
  const std::vector<RankPace>& paces() const { return pace_->world(); }
  /// Spent in runs without waiting for a peer, so far.
  int64_t busy_ns() const { return pace_->busy_ns(); }

 private:
  void build_groups(Fabric& fabric);
  void build_stages();
  TensorGroup tensor_group() const;
  void build_optimizer();
  void build_executor(Clock& clock);
  void build_watches();
  void note_place(int64_t chunk, int64_t unit, const Parameter& parameter);
  void measure();
  void weights_changed(int64_t chunk);
  const std::vector<Instruction>& list(int64_t micro_batches);
  Schedule make_lists(int64_t micro_batches) const;

  void reduce(int64_t chunk) override;
  void gather(int64_t chunk) override;
  void release(int64_t chunk) override;
  void step(const LossSum& sum) override;
  void compare_replicas();
  int64_t waited_ns(Axis axis) const;
  StepGroups step_groups() const;
  Update::Kind decide(const GlobalSums& sums);

  Settings settings_;
  Place place_;
  Coordinates at_;
  Flags flags_;
  std::unique_ptr<Device> device_;
  Kernels kernels_;
  Workspace workspace_;
  OpContext context_;
  Endpoint& endpoint_;
  std::unique_ptr<Communicator> groups_[kAxes];  // by Axis
  ScheduleShape shape_;
  Schedule schedule_;          // of the last number of micro-batches
  Schedule forward_schedule_;  // likewise
  std::vector<LogicalTensor> tensors_;
  std::vector<std::pair<int64_t, int64_t>> layers_;
  std::vector<int64_t> slots_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::unique_ptr<Transfers> transfers_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<ReplicaCheck> replicas_;  // null: nothing is compared
  std::unique_ptr<PaceMeter> pace_;
  LossScale loss_scale_;
  LearningRate learning_rate_;
  std::vector<std::vector<TensorPlace>> places_;
  bool holds_loss_ = false;
  LossSum pending_;
  bool has_pending_ = false;
  Update update_;
  int64_t compared_step_ = 0;  // of the run
  int64_t applied_ = 0;        // updates of the run
  int64_t longest_window_ = 0;
};

}  // namespace plait
