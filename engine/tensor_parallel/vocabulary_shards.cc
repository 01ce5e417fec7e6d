#include "engine/tensor_parallel/vocabulary_shards.h"

#include "kernels/base/mutation.h"

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

void VocabularyShards::join_maximum(TensorView maximum) {
  group_.communicator->all_reduce_max(maximum);
}

void VocabularyShards::join_sums(TensorView sums) {
  const bool is_sum_alone = is_mutated(Mutation::kForeignTargetSkipped);
  group_.communicator->all_reduce(is_sum_alone ? sums.slice_rows(0, 1) : sums);
}

TensorView VocabularyShards::pick_row(const Pass& pass, TensorView x, int64_t row,
                                      Workspace::Frame& frame) {
  return region_->pick_row(pass, x, row, frame);
}

}  // namespace plait
