#include "engine/tensor_parallel/vocabulary_shards.h"

#include "kernels/base/mutation.h"

#include <algorithm>
#include <cmath>

namespace plait {

VocabularyShards::VocabularyShards(const TensorGroup& group)
    : group_(group), region_(make_stream_region(group)) {}

TensorView VocabularyShards::all_rows(const Pass& pass, TensorView x, Workspace::Frame& frame) {
  return region_->all_rows(pass, x, frame);
}

TensorView VocabularyShards::shard_gradient(const Pass& pass, TensorView grad_x,
                                            Workspace::Frame& frame) {
  return region_->term(pass, grad_x, frame);
}

void VocabularyShards::sum_gradient(const Pass& pass, TensorView shard_gradient,
                                    TensorView grad_x) {
  region_->sum(pass, shard_gradient, grad_x);
}

void VocabularyShards::join(const Pass& pass, TensorView maximum, TensorView sums) {
  Workspace::Frame frame(pass.context.workspace);
  const int64_t rows = maximum.rows();
  float* own = frame.take<float>(rows);
  if (pass.context.is_measuring()) return;
  std::copy_n(maximum.as<float>(), rows, own);
  group_.communicator->all_reduce_max(maximum);
  // A shard of padding alone has maximum −∞ and sum 0, and stays so.
  for (int64_t row = 0; row < rows; ++row) {
    const double distance = static_cast<double>(own[row]) - maximum.as<float>()[row];
    sums.as<float>()[row] = static_cast<float>(sums.as<float>()[row] * std::exp(distance));
  }
  const bool is_sum_alone = is_mutated(Mutation::kForeignTargetSkipped);
  group_.communicator->all_reduce(is_sum_alone ? sums.slice_rows(0, 1) : sums);
}

TensorView VocabularyShards::pick_row(const Pass& pass, TensorView x, int64_t row,
                                      Workspace::Frame& frame) {
  return region_->pick_row(pass, x, row, frame);
}

}  // namespace plait
