#include "engine/model/stage.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/mutation.h"

namespace plait {

/// The pass as this rank sees it: which rows of the residual stream pass here.
Pass Stage::here(const Pass& pass) const {
  const TensorGroup& tensor = options_.tensor;
  Pass local = pass;
  local.row_parts = tensor.is_sequence_parallel ? tensor.size : 1;
  check(pass.rows() % local.row_parts == 0, "rows of a micro-batch divide over the tensor group");
  local.first_row = tensor.first_row(pass.rows());
  return local;
}

bool Stage::bring(const Pass& pass, Unit& unit) {
  return options_.hooks->weights_needed(pass.context, unit);
}

void Stage::bring_block(const Pass& pass, int64_t block) {
  const auto i = static_cast<size_t>(block);
  if (bring(pass, *block_units_[i])) blocks_[i]->weights_changed(pass.context);
}

void Stage::bring_head(const Pass& pass) {
  const bool is_new = bring(pass, *head_unit_);
  if (is_new || is_head_stale_) head_->weights_changed(pass.context);
  is_head_stale_ = false;
}

/// The pass in the mode in which this use's gradients are written.
Pass Stage::begin_gradients(const Pass& pass, Unit& unit, GradientUse use) {
  Pass local = pass;
  local.mode = options_.hooks->gradients_begin(pass.context, unit, use, pass.mode);
  return local;
}

void Stage::end_gradients(const Pass& pass, Unit& unit, GradientUse use) {
  options_.hooks->gradients_end(pass.context, unit, use);
}

LossSum Stage::forward(const Pass& given, int64_t slot_index, const MicroBatch& micro) {
  const Pass pass = here(given);
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  if (options_.is_first) forward_embedding(pass, slot, micro);
  for (int64_t run = 0; run < run_count(); ++run) forward_run(pass, slot, run, false);
  return options_.is_last && !micro.is_headless ? run_head(pass, slot, micro) : LossSum{};
}

void Stage::forward_embedding(const Pass& pass, Slot& slot, const MicroBatch& micro) {
  const bool is_new = bring(pass, *token_unit_);
  is_head_stale_ = is_head_stale_ || (is_new && head_unit_ == token_unit_);
  if (position_unit_ != nullptr) bring(pass, *position_unit_);
  embedding_->forward(pass, micro.tokens, first_rows(slot.inputs[0], pass.stream_rows()));
  options_.hooks->weights_done(*token_unit_);
  if (position_unit_ != nullptr) options_.hooks->weights_done(*position_unit_);
}

void Stage::forward_run(const Pass& pass, Slot& slot, int64_t run, bool is_replay) {
  const int64_t first = run * run_length();
  const int64_t last = std::min(first + run_length(), options_.layers);
  const bool is_strayed = is_replay && is_mutated(Mutation::kReplayFromFirstRun);
  state_of(slot, first).x = slot.inputs[static_cast<size_t>(is_strayed ? 0 : run)];
  for (int64_t block = first; block < last; ++block) {
    const auto i = static_cast<size_t>(block);
    const TensorView out = block_output(slot, block);
    bring_block(pass, block);
    blocks_[i]->forward(pass, state_of(slot, block), first_rows(out, pass.stream_rows()));
    if (!is_replay || block + 1 < last) options_.hooks->weights_done(*block_units_[i]);
  }
}

/// The input of the next block: inside a run in that block's state, else a kept input or the
/// output.
TensorView Stage::block_output(const Slot& slot, int64_t block) const {
  const int64_t next = block + 1;
  if (next == options_.layers) return slot.output;
  if (next % run_length() == 0) return slot.inputs[static_cast<size_t>(next / run_length())];
  return (*slot.blocks)[static_cast<size_t>(next % static_cast<int64_t>(slot.blocks->size()))].x;
}

BlockState& Stage::state_of(Slot& slot, int64_t block) {
  return (*slot.blocks)[static_cast<size_t>(block % static_cast<int64_t>(slot.blocks->size()))];
}

LossSum Stage::run_head(const Pass& pass, Slot& slot, const MicroBatch& micro) {
  Workspace::Frame frame(pass.context.workspace);
  const int64_t rows = pass.stream_rows();
  const TensorView x = first_rows(slot.output, rows);
  const bool has_backward = micro.gradient_scale != 0;
  const TensorView y = frame.tensor(options_.model.precision.compute, x.shape);
  NormState norm{x, first_rows(slot.norm_statistics, rows)};
  bring(pass, *norm_unit_);
  final_norm_->forward(pass, x, {}, y, norm);
  options_.hooks->weights_done(*norm_unit_);
  LossHead::Arguments arguments;
  arguments.x = y;
  arguments.targets = micro.targets;
  if (has_backward) arguments.grad_x = first_rows(slot.head_gradient, rows);
  arguments.scale = micro.gradient_scale;
  arguments.losses = micro.losses;
  bring_head(pass);
  const Pass graded = has_backward ? begin_gradients(pass, *head_unit_, head_use_) : pass;
  const LossSum sum = head_->run(graded, arguments);
  if (has_backward) end_gradients(pass, *head_unit_, head_use_);
  options_.hooks->weights_done(*head_unit_);
  return sum;
}

void Stage::backward_head(const Pass& pass, Slot& slot) {
  const int64_t rows = pass.stream_rows();
  const NormState norm{first_rows(slot.output, rows), first_rows(slot.norm_statistics, rows)};
  bring(pass, *norm_unit_);
  const Pass graded = begin_gradients(pass, *norm_unit_, GradientUse::kFirst);
  final_norm_->backward(graded, first_rows(slot.head_gradient, rows),
                        first_rows(slot.gradient, rows), true, {}, norm);
  end_gradients(pass, *norm_unit_, GradientUse::kFirst);
  options_.hooks->weights_done(*norm_unit_);
}

void Stage::backward_run(const Pass& pass, Slot& slot, int64_t run) {
  const int64_t first = run * run_length();
  const int64_t last = std::min(first + run_length(), options_.layers);
  const bool is_replaying = options_.layout.recompute == RecomputeChoice::kFull;
  if (is_replaying) forward_run(pass, slot, run, true);
  const TensorView grad = first_rows(slot.gradient, pass.stream_rows());
  for (int64_t block = last - 1; block >= first; --block) {
    Unit& unit = *block_units_[static_cast<size_t>(block)];
    if (!is_replaying || block + 1 < last) bring_block(pass, block);
    const Pass graded = begin_gradients(pass, unit, GradientUse::kFirst);
    blocks_[static_cast<size_t>(block)]->backward(graded, state_of(slot, block), slot.gradients[0],
                                                  grad);
    end_gradients(pass, unit, GradientUse::kFirst);
    options_.hooks->weights_done(unit);
  }
}

void Stage::backward_positions(const Pass& pass, Slot& slot, const MicroBatch& micro) {
  if (position_unit_ == nullptr) return;
  const Pass graded = begin_gradients(pass, *position_unit_, GradientUse::kFirst);
  embedding_->backward_input(graded, micro.tokens, first_rows(slot.gradient, pass.stream_rows()));
  end_gradients(pass, *position_unit_, GradientUse::kFirst);
}

void Stage::backward_tokens(const Pass& pass, Slot& slot, const MicroBatch& micro) {
  const Pass graded = begin_gradients(pass, *token_unit_, GradientUse::kFirst);
  embedding_->backward_weight(graded, micro.tokens, first_rows(slot.gradient, pass.stream_rows()));
  end_gradients(pass, *token_unit_, GradientUse::kFirst);
}

void Stage::backward(const Pass& given, int64_t slot_index, const MicroBatch& micro) {
  check(!options_.is_split, "a split stage runs its backward parts apart");
  const Pass pass = here(given);
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  if (options_.is_last) backward_head(pass, slot);
  for (int64_t run = run_count() - 1; run >= 0; --run) backward_run(pass, slot, run);
  if (!options_.is_first) return;
  backward_positions(pass, slot, micro);
  backward_tokens(pass, slot, micro);
}

void Stage::backward_input(const Pass& given, int64_t slot_index, const MicroBatch& micro) {
  check(options_.is_split, "a whole stage runs its backward parts together");
  const Pass pass = here(given);
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  const TensorView grad = first_rows(slot.gradient, pass.stream_rows());
  if (options_.is_last) backward_head(pass, slot);
  for (int64_t block = options_.layers - 1; block >= 0; --block) {
    const auto i = static_cast<size_t>(block);
    bring_block(pass, block);
    const Pass graded = begin_gradients(pass, *block_units_[i], GradientUse::kFirst);
    blocks_[i]->backward_input(graded, state_of(slot, block), slot.gradients[i], grad);
    options_.hooks->weights_done(*block_units_[i]);
  }
  if (options_.is_first) backward_positions(pass, slot, micro);
}

void Stage::backward_weight(const Pass& given, int64_t slot_index, const MicroBatch& micro) {
  const Pass pass = here(given);
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  for (int64_t block = options_.layers - 1; block >= 0; --block) {
    const auto i = static_cast<size_t>(block);
    const Pass graded = begin_gradients(pass, *block_units_[i], GradientUse::kFirst);
    blocks_[i]->backward_weight(graded, state_of(slot, block));
    end_gradients(pass, *block_units_[i], GradientUse::kFirst);
  }
  if (options_.is_first) backward_tokens(pass, slot, micro);
}

void Stage::logits(const Pass& given, int64_t slot_index, int64_t row, TensorView logits) {
  const Pass pass = here(given);
  Workspace::Frame frame(pass.context.workspace);
  const TensorView all = slots_[static_cast<size_t>(slot_index)].output;
  const TensorView x = head_->pick_row(pass, first_rows(all, pass.stream_rows()), row, frame);
  const TensorView y = frame.tensor(options_.model.precision.compute, x.shape);
  NormState norm{x, frame.tensor(DType::kFloat32, {1, 2})};
  bring(pass, *norm_unit_);
  final_norm_->forward(pass, x, {}, y, norm);
  options_.hooks->weights_done(*norm_unit_);
  bring_head(pass);
  head_->logits(pass, y, logits);
  options_.hooks->weights_done(*head_unit_);
}

}  // namespace plait
