// Logits and cross entropy over a vocabulary that is cut by ids over a tensor group (1909.08053,
// section 3): logits are never gathered, their statistics are.
#pragma once

#include <memory>

#include "engine/layers/logit_shards.h"
#include "engine/tensor_parallel/stream_region.h"

namespace plait {

class VocabularyShards final : public LogitShards {
 public:
  explicit VocabularyShards(const TensorGroup& group);

  TensorView all_rows(const Pass& pass, TensorView x, Workspace::Frame& frame) override;
  TensorView shard_gradient(const Pass& pass, TensorView grad_x, Workspace::Frame& frame) override;
  void sum_gradient(const Pass& pass, TensorView shard_gradient, TensorView grad_x) override;
  bool is_cut() const override { return true; }
  void join_maximum(TensorView maximum) override;
  void join_sums(TensorView sums) override;
  TensorView pick_row(const Pass& pass, TensorView x, int64_t row,
                      Workspace::Frame& frame) override;

 private:
  TensorGroup group_;
  std::unique_ptr<StreamRegion> region_;
};

}  // namespace plait
