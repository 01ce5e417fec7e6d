#include "engine/model/stage.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace plait {
LossSum Stage::forward(const Pass& pass, int64_t slot_index, const MicroBatch& micro) {
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  if (options_.is_first) {
    embedding_->forward(pass, micro.tokens, first_rows(slot.inputs[0], pass.rows()));
  }
  for (int64_t run = 0; run < run_count(); ++run) forward_run(pass, slot, run);
  return options_.is_last && !micro.is_headless ? run_head(pass, slot, micro) : LossSum{};
}

void Stage::forward_run(const Pass& pass, Slot& slot, int64_t run) {
  const int64_t first = run * run_length();
  const int64_t last = std::min(first + run_length(), options_.layers);
  state_of(slot, first).x = slot.inputs[static_cast<size_t>(run)];
  for (int64_t block = first; block < last; ++block) {
    const TensorView out = block_output(slot, block);
    blocks_[static_cast<size_t>(block)]->forward(pass, state_of(slot, block),
                                                 first_rows(out, pass.rows()));
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
  const TensorView x = first_rows(slot.output, pass.rows());
  const bool has_backward = micro.gradient_scale != 0;
  const TensorView y = frame.tensor(options_.model.precision.compute, x.shape);
  NormState norm{x, first_rows(slot.norm_statistics, pass.rows())};
  final_norm_->forward(pass, x, {}, y, norm);
  LossHead::Arguments arguments;
  arguments.x = y;
  arguments.targets = micro.targets;
  if (has_backward) arguments.grad_x = first_rows(slot.head_gradient, pass.rows());
  arguments.scale = micro.gradient_scale;
  arguments.losses = micro.losses;
  return head_->run(pass, arguments);
}

void Stage::backward_head(const Pass& pass, Slot& slot) {
  const NormState norm{first_rows(slot.output, pass.rows()),
                       first_rows(slot.norm_statistics, pass.rows())};
  final_norm_->backward(pass, first_rows(slot.head_gradient, pass.rows()),
                        first_rows(slot.gradient, pass.rows()), true, {}, norm);
}

void Stage::backward(const Pass& pass, int64_t slot_index, const MicroBatch& micro) {
  check(!options_.is_split, "a split stage runs its backward parts apart");
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  const TensorView grad = first_rows(slot.gradient, pass.rows());
  if (options_.is_last) backward_head(pass, slot);
  const bool is_replaying = options_.layout.recompute == RecomputeChoice::kFull;
  for (int64_t run = run_count() - 1; run >= 0; --run) {
    const int64_t first = run * run_length();
    const int64_t last = std::min(first + run_length(), options_.layers);
    if (is_replaying) forward_run(pass, slot, run);
    for (int64_t block = last - 1; block >= first; --block) {
      Block& layer = *blocks_[static_cast<size_t>(block)];
      layer.backward_input(pass, state_of(slot, block), slot.gradients[0], grad);
      layer.backward_weight(pass, state_of(slot, block));
    }
  }
  if (!options_.is_first) return;
  embedding_->backward_input(pass, micro.tokens, grad);
  embedding_->backward_weight(pass, micro.tokens, grad);
}

void Stage::backward_input(const Pass& pass, int64_t slot_index, const MicroBatch& micro) {
  check(options_.is_split, "a whole stage runs its backward parts together");
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  const TensorView grad = first_rows(slot.gradient, pass.rows());
  if (options_.is_last) backward_head(pass, slot);
  for (int64_t block = options_.layers - 1; block >= 0; --block) {
    blocks_[static_cast<size_t>(block)]->backward_input(
        pass, state_of(slot, block), slot.gradients[static_cast<size_t>(block)], grad);
  }
  if (options_.is_first) embedding_->backward_input(pass, micro.tokens, grad);
}

void Stage::backward_weight(const Pass& pass, int64_t slot_index, const MicroBatch& micro) {
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  for (int64_t block = options_.layers - 1; block >= 0; --block) {
    blocks_[static_cast<size_t>(block)]->backward_weight(pass, state_of(slot, block));
  }
  if (options_.is_first) {
    embedding_->backward_weight(pass, micro.tokens, first_rows(slot.gradient, pass.rows()));
  }
}

void Stage::logits(const Pass& pass, int64_t slot_index, int64_t row, TensorView logits) {
  Workspace::Frame frame(pass.context.workspace);
  const TensorView x = slots_[static_cast<size_t>(slot_index)].output.slice_rows(row, 1);
  const TensorView y = frame.tensor(options_.model.precision.compute, x.shape);
  NormState norm{x, frame.tensor(DType::kFloat32, {1, 2})};
  final_norm_->forward(pass, x, {}, y, norm);
  head_->logits(pass, y, logits);
}

}  // namespace plait
