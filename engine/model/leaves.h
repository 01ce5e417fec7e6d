// The one place that picks the leaf types of a tensor group: a group of one gets the single-device
// leaves, a larger one those of engine/tensor_parallel.
#pragma once

#include <memory>

#include "engine/layers/embedding.h"
#include "engine/layers/linear.h"
#include "engine/layers/loss_head.h"
#include "engine/tensor_parallel/tensor_group.h"

namespace plait {

class Leaves {
 public:
  explicit Leaves(const TensorGroup& group) : group_(group) {}

  /// Parameters are the local ones, borrowed; `bias` and `position` may be null.
  std::unique_ptr<LinearLayer> column(Parameter* weight, Parameter* bias) const;
  std::unique_ptr<LinearLayer> row(Parameter* weight) const;
  std::unique_ptr<EmbeddingLayer> embedding(Parameter* token, Parameter* position,
                                            DropoutSite dropout, int64_t first_id,
                                            int64_t vocabulary) const;
  /// `is_second_use`: its gradient goes to the weight's second accumulator.
  std::unique_ptr<LossHead> loss_head(Parameter* weight, bool is_second_use,
                                      const LossHead::Options& options) const;

 private:
  TensorGroup group_;
};

}  // namespace plait
