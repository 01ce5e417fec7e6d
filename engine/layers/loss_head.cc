#include "engine/layers/loss_head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/layers/lane_sum.h"
#include "kernels/base/mutation.h"
#include "kernels/ops/span.h"

namespace plait {
namespace {

/// Rows of a chunk: large enough to make the products efficient and the passes over the weight's
/// gradient few, small enough to keep a chunk of logits at about 128 MiB.
int64_t chunk_rows(int64_t width) {
  constexpr int64_t kChunkElements = int64_t{1} << 25;
  return std::clamp<int64_t>(kChunkElements / width / 64 * 64, 64, 4096);
}

/// Outputs of a lane that are ids of the vocabulary.
int64_t real_ids(const LossHead::Options& options, size_t lane) {
  if (is_mutated(Mutation::kPaddingCounted)) return options.width;
  const int64_t first = options.first_id + static_cast<int64_t>(lane) * options.width;
  return std::clamp<int64_t>(options.vocabulary - first, 0, options.width);
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

LossHead::LossHead(std::vector<std::unique_ptr<LinearLayer>> lanes,
                   std::unique_ptr<LogitShards> shards, const Options& options)
    : lanes_(std::move(lanes)),
      shards_(std::move(shards)),
      options_(options),
      statistics_(lanes_.size()) {}

void LossHead::prepare(OpContext& context, int64_t max_rows) {
  for (const auto& lane : lanes_) {
    lane->prepare(context, std::min(max_rows, chunk_rows(options_.width)));
  }
}

void LossHead::weights_changed(OpContext& context) {
  for (const auto& lane : lanes_) lane->weights_changed(context);
}

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

/// Logits and their statistics, in memory of `frame`.
LossHead::Statistics LossHead::lane_statistics(const Pass& pass, const Arguments& arguments,
                                               const Chunk& chunk, size_t lane,
                                               Workspace::Frame& frame) {
  Statistics result;
  CrossEntropyStatistics& of_rows = result.of_rows;
  of_rows.logits = frame.tensor(DType::kFloat32, {chunk.rows, options_.width});
  of_rows.vocabulary = real_ids(options_, lane);
  of_rows.first_id = options_.first_id + static_cast<int64_t>(lane) * options_.width;
  of_rows.targets = arguments.targets + chunk.first;
  of_rows.maximum = frame.tensor(DType::kFloat32, {chunk.rows});
  result.sums = frame.tensor(DType::kFloat32, {2, chunk.rows});
  of_rows.sum = result.sums.slice_rows(0, 1).reshaped({chunk.rows});
  of_rows.target_logit = result.sums.slice_rows(1, 1).reshaped({chunk.rows});
  lanes_[lane]->forward(pass, arguments.x.slice_rows(chunk.first, chunk.rows), of_rows.logits,
                        result.state);
  cross_entropy_statistics(pass.context, of_rows);
  return result;
}

/// The first lane's statistics ← those of all ids, here and on other shards.
void LossHead::join(const Pass& pass) {
  std::vector<Statistics>& lanes = statistics_;
  if (lanes.size() == 1 && !shards_->is_cut()) return;
  Workspace::Frame frame(pass.context.workspace);
  Statistics& all = lanes[0];
  const int64_t rows = all.of_rows.maximum.elements();
  float* largest = all.of_rows.maximum.as<float>();
  float* first = frame.take<float>(rows);
  const bool is_real = !pass.context.is_measuring();
  if (is_real) {
    std::copy_n(largest, rows, first);
    for (size_t lane = 1; lane < lanes.size(); ++lane) {
      const float* next = lanes[lane].of_rows.maximum.as<float>();
      for (int64_t row = 0; row < rows; ++row) {
        const bool stays = next[row] < largest[row] || std::isnan(largest[row]);
        if (!stays) largest[row] = next[row];
      }
    }
    shards_->join_maximum(all.of_rows.maximum);
    // Ids that are padding alone have maximum −∞ and sum 0, and stay so.
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const float* own = lane == 0 ? first : lanes[lane].of_rows.maximum.as<float>();
      float* sums = lanes[lane].sums.as<float>();
      for (int64_t row = 0; row < rows; ++row) {
        const double distance = static_cast<double>(own[row]) - largest[row];
        sums[row] = static_cast<float>(sums[row] * std::exp(distance));
      }
    }
  }
  for (size_t step = 1; step < lanes.size(); step *= 2) {
    for (size_t lane = 0; lane < lanes.size(); lane += 2 * step) {
      const Shape flat{2 * rows};
      add_span(pass.context, lanes[lane + step].sums.reshaped(flat),
               lanes[lane].sums.reshaped(flat));
    }
  }
  if (is_real) shards_->join_sums(all.sums);
}

/// grad_x ← the lane's term of the gradient, from the joined statistics.
void LossHead::lane_gradient(const Pass& pass, float scale, size_t lane, TensorView grad_x) {
  Workspace::Frame frame(pass.context.workspace);
  Statistics& own = statistics_[lane];
  CrossEntropyGradient gradient;
  gradient.logits = own.of_rows.logits;
  gradient.vocabulary = own.of_rows.vocabulary;
  gradient.first_id = own.of_rows.first_id;
  gradient.targets = own.of_rows.targets;
  gradient.maximum = statistics_[0].of_rows.maximum;
  gradient.sum = statistics_[0].of_rows.sum;
  gradient.scale = scale;
  gradient.grad = options_.dtype == DType::kFloat32
                      ? gradient.logits
                      : frame.tensor(options_.dtype, gradient.logits.shape);
  cross_entropy_gradient(pass.context, gradient);
  lanes_[lane]->backward(pass, gradient.grad, grad_x, own.state);
}

LossSum LossHead::run_chunk(const Pass& pass, const Arguments& arguments, const Chunk& chunk) {
  Workspace::Frame frame(pass.context.workspace);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    statistics_[lane] = lane_statistics(pass, arguments, chunk, lane, frame);
  }
  join(pass);
  LossSum sum;
  if (!pass.context.is_measuring()) {
    float* losses = arguments.losses != nullptr ? arguments.losses + chunk.first : nullptr;
    sum = sum_losses(statistics_[0].of_rows, losses);
  }
  if (!arguments.grad_x.is_present()) return sum;
  add_tree(
      pass, 0, lanes_.size(), arguments.grad_x.slice_rows(chunk.first, chunk.rows),
      [&](size_t lane, TensorView grad_x) { lane_gradient(pass, arguments.scale, lane, grad_x); });
  return sum;
}

TensorView LossHead::pick_row(const Pass& pass, TensorView x, int64_t row,
                              Workspace::Frame& frame) {
  return shards_->pick_row(pass, x, row, frame);
}

void LossHead::logits(const Pass& pass, TensorView x, TensorView logits) {
  const TensorView lanes = logits.reshaped({static_cast<int64_t>(lanes_.size()), options_.width});
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    LinearState state;
    lanes_[lane]->forward(pass, x, lanes.slice_rows(static_cast<int64_t>(lane), 1), state);
  }
}

}  // namespace plait
