// AdamW (1711.05101) over the units of one rank, sharded over the data axis as the ZeRO stage says
// (1910.02054), and the arithmetic that closes a step: reductions, the tied sum, the global norm.
// Knows flat units and logical tensors, not layers.
//
// Coordinate δ owns slice δ of d equal ones of each unit; slices ignore parameter borders.
//
//   stage  whole on every δ           its slice only         after the update
//   0      weights, gradients, state  –                      –
//   1      weights, gradients         masters, moments       all-gather of weights
//   2      weights                    gradients too          all-gather of weights
//   3      –                          weights too            –
//
// With one coordinate nothing is cut, whatever the stage. With more, units take turns in windows as
// large as the rank's largest unit, which hold what is not kept whole: stages 2 and 3 two for fp32
// gradients, stage 3 two for weights besides (one, where the rank has one unit or one use).
//
// Gradients are summed, never averaged; the one division happens in `apply`'s gradient scale.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/layers/unit_hooks.h"
#include "kernels/device/device.h"
#include "kernels/ops/context.h"

namespace plait {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

/// The rank's groups, all present (of size 1 where an axis has one member). Borrowed.
struct StepGroups {
  Communicator* tensor = nullptr;
  Communicator* pipeline = nullptr;
  Communicator* data = nullptr;
};

struct OptimizerOptions {
  AdamWOptions adamw;
  int64_t zero = 0;
  /// By logical tensor in canonical order: names, and whether it has weight decay.
  std::vector<std::string> tensors;
  std::vector<bool> decays;
  /// Pipeline index of the other end that holds the tied token embedding, which is logical tensor 0
  /// and a unit of its own; −1: there is none.
  int64_t tied_peer = -1;
  bool is_tied_owner = true;  ///< holds the copy of virtual stage 0, which norms and reads count
  /// Stages 2 and 3: reductions run beside what the rank computes next. The bits are the same.
  bool is_overlapping = true;
  int64_t batch_parts = 1;  ///< canonical sums: parts of a batch that this rank has; see BatchParts
};

/// What one rank knows when its list is done. Losses and targets are those of its own micro-batches
/// on the last virtual stage, and zero on ranks that do not hold it.
struct LocalSums {
  double loss = 0;
  int64_t targets = 0;
  int64_t stop = 0;  ///< 1: its process wants to stop
};

/// The same values on every rank of the world, to the bit.
struct GlobalSums {
  double loss = 0;  ///< over the data axis by ascending coordinate
  int64_t targets = 0;
  int64_t stop = 0;    ///< the largest
  double squares = 0;  ///< Σ g², each logical element once; canonical order over tensors
  int64_t first_nonfinite = -1;  ///< canonical index of a tensor whose sum is not finite
};

/// Elements [first, first + count) of a unit.
struct UnitRange {
  int64_t first = 0;
  int64_t count = 0;
};

struct AdamW;
class ShardedUnit;

class Optimizer {
 public:
  /// `chunks[c]`: the sealed units of the rank's c-th virtual stage, in canonical order. Allocates
  /// all that the ZeRO stage keeps, and binds weights and gradients.
  Optimizer(const OptimizerOptions& options, const StepGroups& groups,
            std::vector<std::vector<Unit*>> chunks, Device& device);
  ~Optimizer();

  /// For the stage of chunk c.
  UnitHooks& hooks(int64_t chunk);

  /// fp32 state of unit u of chunk c: the elements `state_range` of it.
  UnitRange state_range(int64_t chunk, int64_t unit) const;
  TensorView master(int64_t chunk, int64_t unit) const;
  TensorView moment1(int64_t chunk, int64_t unit) const;
  TensorView moment2(int64_t chunk, int64_t unit) const;
  /// Compute weights that stay between steps: the elements `weight_range` of the unit.
  UnitRange weight_range(int64_t chunk, int64_t unit) const;
  TensorView weights(int64_t chunk, int64_t unit) const;
  /// Accumulated gradients before they are reduced: the elements `gradient_range` of the unit. The
  /// second use's, or absent.
  UnitRange gradient_range(int64_t chunk, int64_t unit) const;
  TensorView gradient(int64_t chunk, int64_t unit, GradientUse use) const;
  /// Updates that a logical tensor has had.
  int64_t updates(int64_t tensor) const { return updates_[static_cast<size_t>(tensor)]; }
  void set_updates(int64_t tensor, int64_t count) { updates_[static_cast<size_t>(tensor)] = count; }
  void set_updates(int64_t count) { updates_.assign(updates_.size(), count); }  ///< of all tensors

  /// After masters were written: weights ← round(masters), on every δ.
  void masters_changed(OpContext& context);

  /// A new accumulation: slices that stages 2 and 3 add to start from zero. With several parts of a
  /// batch, `micro_batches` are all of this rank's.
  void begin_step(int64_t micro_batches);
  /// Ends a reduction under way: until then slices lack what it brings, and `gradient` reads them
  /// without it.
  void finish_reductions(OpContext& context);
  /// Instruction `reduce`: stages 0 and 1 bring the chunk's gradients together over the data axis.
  void reduce(OpContext& context, int64_t chunk);
  /// First half of instruction `step`: sums of tensor-partial segments and of the tied embedding,
  /// then sums, norm and the stop flag of the whole world. Collective over all three axes.
  GlobalSums close(OpContext& context, const LocalSums& sums);
  /// Loss, targets and stop alone, for evaluations. Collective as `close`.
  GlobalSums add_up(const LocalSums& sums);
  /// Second half: one AdamW update of every tensor with gradients scaled by `gradient_scale`.
  void apply(OpContext& context, float gradient_scale, double lr);
  /// Instruction `gather` after `step`: stages 1 and 2 all-gather the chunk's weights.
  void gather(OpContext& context, int64_t chunk);

  /// Forgets moments and update counts.
  void reset();

 private:
  struct State;
  void update(OpContext& context, const ShardedUnit& unit, AdamW arguments) const;
  std::unique_ptr<State> state_;
  std::vector<int64_t> updates_;
};

}  // namespace plait
