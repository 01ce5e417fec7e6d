#include "engine/layers/loss_head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/ops/cross_entropy.h"

namespace plait {
namespace {

/// Rows of a chunk: large enough to make the products efficient and the passes over the weight's
/// gradient few, small enough to keep a chunk of logits at about 128 MiB.
int64_t chunk_rows(int64_t padded_vocabulary) {
  constexpr int64_t kChunkElements = int64_t{1} << 25;
  return std::clamp<int64_t>(kChunkElements / padded_vocabulary / 64 * 64, 64, 4096);
}

}  // namespace

LossHead::LossHead(std::unique_ptr<LinearLayer> logits, int64_t vocabulary,
                   int64_t padded_vocabulary, DType dtype)
    : linear_(std::move(logits)),
      vocabulary_(vocabulary),
      padded_vocabulary_(padded_vocabulary),
      dtype_(dtype) {}

void LossHead::prepare(OpContext& context, int64_t max_rows) {
  linear_->prepare(context, std::min(max_rows, chunk_rows(padded_vocabulary_)));
}

void LossHead::weights_changed(OpContext& context) { linear_->weights_changed(context); }

LossSum LossHead::run(const Pass& pass, const Arguments& arguments) {
  LossSum total;
  const int64_t step = chunk_rows(padded_vocabulary_);
  Pass chunk_pass = pass;
  for (int64_t first = 0; first < pass.rows(); first += step) {
    const Chunk chunk{first, std::min(step, pass.rows() - first)};
    const LossSum sum = run_chunk(chunk_pass, arguments, chunk);
    total.loss += sum.loss;
    total.targets += sum.targets;
    chunk_pass.mode = GradientMode::kAccumulate;
  }
  return total;
}

LossSum LossHead::run_chunk(const Pass& pass, const Arguments& arguments, const Chunk& chunk) {
  Workspace::Frame frame(pass.context.workspace);
  CrossEntropyStatistics statistics;
  statistics.logits = frame.tensor(DType::kFloat32, {chunk.rows, padded_vocabulary_});
  statistics.vocabulary = vocabulary_;
  statistics.targets = arguments.targets + chunk.first;
  statistics.maximum = frame.tensor(DType::kFloat32, {chunk.rows});
  statistics.sum = frame.tensor(DType::kFloat32, {chunk.rows});
  statistics.target_logit = frame.tensor(DType::kFloat32, {chunk.rows});
  LinearState state;
  linear_->forward(pass, arguments.x.slice_rows(chunk.first, chunk.rows), statistics.logits, state);
  cross_entropy_statistics(pass.context, statistics);
  LossSum sum;
  for (int64_t row = 0; row < chunk.rows && !pass.context.is_measuring(); ++row) {
    double loss = 0;
    if (statistics.targets[row] >= 0) {
      loss = std::log(static_cast<double>(statistics.sum.as<float>()[row])) -
             (static_cast<double>(statistics.target_logit.as<float>()[row]) -
              static_cast<double>(statistics.maximum.as<float>()[row]));
      sum.loss += loss;
      ++sum.targets;
    }
    if (arguments.losses != nullptr) {
      arguments.losses[chunk.first + row] = static_cast<float>(loss);
    }
  }
  if (!arguments.grad_x.is_present()) return sum;
  CrossEntropyGradient gradient;
  gradient.logits = statistics.logits;
  gradient.vocabulary = vocabulary_;
  gradient.targets = statistics.targets;
  gradient.maximum = statistics.maximum;
  gradient.sum = statistics.sum;
  gradient.scale = arguments.scale;
  gradient.grad =
      dtype_ == DType::kFloat32 ? statistics.logits : frame.tensor(dtype_, statistics.logits.shape);
  cross_entropy_gradient(pass.context, gradient);
  linear_->backward_input(pass, gradient.grad, arguments.grad_x.slice_rows(chunk.first, chunk.rows),
                          state);
  linear_->backward_weight(pass, state);
  return sum;
}

void LossHead::logits(const Pass& pass, TensorView x, TensorView logits) {
  LinearState state;
  linear_->forward(pass, x, logits, state);
}

}  // namespace plait
