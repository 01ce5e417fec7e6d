// A virtual stage: a run of consecutive blocks, at the front of the model with the embeddings, at
// its end with the final norm and the loss. Declares its parameters, whose memory belongs to
// whoever binds its units, and owns the saved states of the micro-batches that a schedule keeps
// alive in it, each in a numbered slot.
//
// Every member of its tensor group makes the same calls in the same order: passes are collective.
// With sequence parallel "stream rows" are the group's τ-th part of a micro-batch's rows.
//
// Hooks: each unit's weights are asked for before a pass reads them and given back after, in the
// order of use; a replay keeps those of its last block for the backward pass that follows.
// Gradients of a use begin before their first write and end after their last. In a split stage a
// block's begin before each part and end after its weight part.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/layers/embedding.h"
#include "engine/layers/loss_head.h"
#include "engine/layers/unit_hooks.h"
#include "engine/model/block.h"
#include "engine/model/shards.h"
#include "engine/tensor_parallel/tensor_group.h"

namespace plait {

struct StageOptions {
  ModelOptions model;
  LayoutConfig layout;
  int64_t first_layer = 0;
  int64_t layers = 0;
  bool is_first = true;   ///< holds the embeddings
  bool is_last = true;    ///< holds final norm, head and loss
  int64_t slots = 1;      ///< most micro-batches alive at once
  int64_t max_rows = 0;   ///< rows of the largest micro-batch, all of them
  bool is_split = false;  ///< backward comes as input and weight parts at different times
  TensorGroup tensor;     ///< size and sequence parallel as `layout` says
  UnitHooks* hooks = &no_unit_hooks();  ///< borrowed
};

/// What a stage needs of a micro-batch besides the residual stream. Borrowed until its backward
/// pass is done.
struct MicroBatch {
  const int32_t* tokens = nullptr;   ///< [rows], first stage
  const int32_t* targets = nullptr;  ///< [rows] ids or −1, last stage
  float gradient_scale = 0;          ///< S/N₀; 0: no backward pass follows
  float* losses = nullptr;           ///< [rows], last stage, or null
  bool is_headless = false;          ///< the last stage leaves out norm, logits and loss
};

class Stage {
 public:
  Stage(const StageOptions& options, Device& device);
  ~Stage();

  /// Units in canonical order, sealed.
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  /// In place of the options' hooks; before the first pass.
  void set_hooks(UnitHooks& hooks) { options_.hooks = &hooks; }
  /// Makes plans and packed forms; once, before the first pass. Weights must be bound, or be so by
  /// hooks before use.
  void prepare(OpContext& context);
  /// After every change of weights.
  void weights_changed(OpContext& context);

  /// Stream rows of a micro-batch of `rows` rows.
  int64_t stream_rows(int64_t rows) const { return options_.tensor.local_rows(rows); }
  /// Where a stage that is not the first finds its input, [max stream rows, H] residual dtype.
  TensorView input(int64_t slot) const { return slots_[static_cast<size_t>(slot)].inputs[0]; }
  /// What a stage that is not the last leaves after forward.
  TensorView output(int64_t slot) const { return slots_[static_cast<size_t>(slot)].output; }
  /// Gradient of the output before backward and of the input after it; set by the last stage
  /// itself.
  TensorView gradient(int64_t slot) const { return slots_[static_cast<size_t>(slot)].gradient; }

  /// The loss on the last stage, the same on the whole tensor group; zeros elsewhere.
  LossSum forward(const Pass& pass, int64_t slot, const MicroBatch& micro);
  /// Both parts, block by block; needs a stage that is not split.
  void backward(const Pass& pass, int64_t slot, const MicroBatch& micro);
  void backward_input(const Pass& pass, int64_t slot, const MicroBatch& micro);
  void backward_weight(const Pass& pass, int64_t slot, const MicroBatch& micro);

  /// After forward on the last stage: logits [1, vocabulary_shard_width] float32 of row `row` of
  /// the slot's micro-batch, of ids from first_id() on. Those ≥ V are padding.
  void logits(const Pass& pass, int64_t slot, int64_t row, TensorView logits);
  int64_t first_id() const { return shards_.ids().first; }
  int64_t vocabulary_shard_width() const { return shards_.ids().count; }
  /// V_p, of all shards.
  int64_t padded_vocabulary() const { return padded_vocabulary_; }

 private:
  struct Slot {
    std::vector<TensorView> inputs;  // of each run of blocks kept by recompute, else of the stage
    TensorView output;               // input of the final norm on the last stage
    TensorView gradient;
    TensorView norm_statistics;                 // of the final norm
    TensorView head_gradient;                   // [stream rows, H] of the final norm's output
    std::vector<BlockState>* blocks = nullptr;  // own ones, or those that all slots share
    std::vector<BlockGradients> gradients;
    std::vector<BlockState> own_blocks;
  };
  class Arena;

  Unit* add_unit(std::string name);
  Parameter* add_vocabulary(Unit& unit, const char* name);
  void build_embedding();
  void build_blocks();
  void build_head();
  void make_slots();
  void make_slot(Slot* slot);
  std::vector<BlockState> make_blocks(int64_t count);

  Pass here(const Pass& pass) const;
  bool bring(const Pass& pass, Unit& unit);
  void bring_block(const Pass& pass, int64_t block);
  void bring_head(const Pass& pass);
  Pass begin_gradients(const Pass& pass, Unit& unit, GradientUse use);
  void end_gradients(const Pass& pass, Unit& unit, GradientUse use);

  int64_t run_length() const;
  int64_t run_count() const;
  TensorView block_output(const Slot& slot, int64_t block) const;
  LossSum run_head(const Pass& pass, Slot& slot, const MicroBatch& micro);
  void forward_embedding(const Pass& pass, Slot& slot, const MicroBatch& micro);
  void forward_run(const Pass& pass, Slot& slot, int64_t run, bool is_replay);
  void backward_head(const Pass& pass, Slot& slot);
  void backward_run(const Pass& pass, Slot& slot, int64_t run);
  void backward_positions(const Pass& pass, Slot& slot, const MicroBatch& micro);
  void backward_tokens(const Pass& pass, Slot& slot, const MicroBatch& micro);
  BlockState& state_of(Slot& slot, int64_t block);
  int64_t stream_rows() const { return options_.tensor.local_rows(options_.max_rows); }

  StageOptions options_;
  Device& device_;
  Shards shards_;
  int64_t padded_vocabulary_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<Unit>> units_;
  Parameter* token_ = nullptr;
  Unit *token_unit_ = nullptr, *position_unit_ = nullptr;
  Unit *norm_unit_ = nullptr, *head_unit_ = nullptr;
  std::vector<Unit*> block_units_;
  GradientUse head_use_ = GradientUse::kFirst;
  bool is_head_stale_ = false;  // the embedding brought in the weights that the head shares
  Buffer rotary_;
  std::unique_ptr<EmbeddingLayer> embedding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<ResidualNorm> final_norm_;
  std::unique_ptr<LossHead> head_;
  std::vector<BlockState> shared_blocks_;
  std::vector<BlockGradients> shared_gradients_;
  std::vector<Slot> slots_;
};

}  // namespace plait
