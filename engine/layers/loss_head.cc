#include "engine/layers/loss_head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/mutation.h"
#include "kernels/ops/cross_entropy.h"

namespace plait {
namespace {

/// Rows of a chunk: large enough to make the products efficient and the passes over the weight's
/// gradient few, small enough to keep a chunk of logits at about 128 MiB.
int64_t chunk_rows(int64_t width) {
  constexpr int64_t kChunkElements = int64_t{1} << 25;
  return std::clamp<int64_t>(kChunkElements / width / 64 * 64, 64, 4096);
}

/// Outputs that are ids of the vocabulary.
int64_t real_ids(const LossHead::Options& options) {
  if (is_mutated(Mutation::kPaddingCounted)) return options.width;
  return std::clamp<int64_t>(options.vocabulary - options.first_id, 0, options.width);
}

/// Sums of a chunk's rows in their order.
LossSum sum_losses(const CrossEntropyStatistics& statistics, float* losses) {
  LossSum sum;
  for (int64_t row = 0; row < statistics.logits.rows(); ++row) {
    double loss = 0;
    if (statistics.targets[row] >= 0) {
      loss = std::log(static_cast<double>(statistics.sum.as<float>()[row])) -
             (static_cast<double>(statistics.target_logit.as<float>()[row]) -
              static_cast<double>(statistics.maximum.as<float>()[row]));
      sum.loss += loss;
      ++sum.targets;
    }
    if (losses != nullptr) losses[row] = static_cast<float>(loss);
  }
  return sum;
}

}  // namespace

LossHead::LossHead(std::unique_ptr<LinearLayer> logits, std::unique_ptr<LogitShards> shards,
                   const Options& options)
    : linear_(std::move(logits)),
      shards_(std::move(shards)),
      options_(options),
      counted_(real_ids(options)) {}

void LossHead::prepare(OpContext& context, int64_t max_rows) {
  linear_->prepare(context, std::min(max_rows, chunk_rows(options_.width)));
}

void LossHead::weights_changed(OpContext& context) { linear_->weights_changed(context); }

LossSum LossHead::run(const Pass& pass, const Arguments& arguments) {
  Workspace::Frame frame(pass.context.workspace);
  Arguments all = arguments;
  all.x = shards_->all_rows(pass, arguments.x, frame);
  const bool has_backward = arguments.grad_x.is_present();
  if (has_backward) all.grad_x = shards_->shard_gradient(pass, arguments.grad_x, frame);
  LossSum total;
  const int64_t step = chunk_rows(options_.width);
  Pass chunk_pass = pass;
  for (int64_t first = 0; first < pass.rows(); first += step) {
    const LossSum sum = run_chunk(chunk_pass, all, {first, std::min(step, pass.rows() - first)});
    total.loss += sum.loss;
    total.targets += sum.targets;
    chunk_pass.mode = GradientMode::kAccumulate;
  }
  if (has_backward) shards_->sum_gradient(pass, all.grad_x, arguments.grad_x);
  return total;
}

LossSum LossHead::run_chunk(const Pass& pass, const Arguments& arguments, const Chunk& chunk) {
  Workspace::Frame frame(pass.context.workspace);
  CrossEntropyStatistics statistics;
  statistics.logits = frame.tensor(DType::kFloat32, {chunk.rows, options_.width});
  statistics.vocabulary = counted_;
  statistics.first_id = options_.first_id;
  statistics.targets = arguments.targets + chunk.first;
  statistics.maximum = frame.tensor(DType::kFloat32, {chunk.rows});
  const TensorView sums = frame.tensor(DType::kFloat32, {2, chunk.rows});
  statistics.sum = sums.slice_rows(0, 1).reshaped({chunk.rows});
  statistics.target_logit = sums.slice_rows(1, 1).reshaped({chunk.rows});
  LinearState state;
  linear_->forward(pass, arguments.x.slice_rows(chunk.first, chunk.rows), statistics.logits, state);
  cross_entropy_statistics(pass.context, statistics);
  shards_->join(pass, statistics.maximum, sums);
  LossSum sum;
  if (!pass.context.is_measuring()) {
    float* losses = arguments.losses != nullptr ? arguments.losses + chunk.first : nullptr;
    sum = sum_losses(statistics, losses);
  }
  if (!arguments.grad_x.is_present()) return sum;
  CrossEntropyGradient gradient;
  gradient.logits = statistics.logits;
  gradient.vocabulary = counted_;
  gradient.first_id = options_.first_id;
  gradient.targets = statistics.targets;
  gradient.maximum = statistics.maximum;
  gradient.sum = statistics.sum;
  gradient.scale = arguments.scale;
  gradient.grad = options_.dtype == DType::kFloat32
                      ? statistics.logits
                      : frame.tensor(options_.dtype, statistics.logits.shape);
  cross_entropy_gradient(pass.context, gradient);
  linear_->backward(pass, gradient.grad, arguments.grad_x.slice_rows(chunk.first, chunk.rows),
                    state);
  return sum;
}

TensorView LossHead::pick_row(const Pass& pass, TensorView x, int64_t row,
                              Workspace::Frame& frame) {
  return shards_->pick_row(pass, x, row, frame);
}

void LossHead::logits(const Pass& pass, TensorView x, TensorView logits) {
  LinearState state;
  linear_->forward(pass, x, logits, state);
}

}  // namespace plait
