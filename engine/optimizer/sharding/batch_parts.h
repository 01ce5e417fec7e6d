// Canonical sums over a batch: its micro-batches in equal parts, each added in order, and the parts
// as a balanced tree, whose lower levels one rank computes and whose upper ones the data axis.
// Parts that wait for their neighbours lie in buffers of their own, one for each level.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/optimizer/sharding/sharded_unit.h"

namespace plait {

class BatchParts {
 public:
  /// `parts`, a power of two: those of this rank. One part takes no memory and changes nothing.
  BatchParts(int64_t parts, const ShardedChunks& chunks, Device& device);

  /// Of this rank, a multiple of the parts.
  void begin_step(int64_t micro_batches);
  /// Before a micro-batch's gradients of a use are written; as UnitHooks::gradients_begin.
  GradientMode begin(OpContext& context, const ShardedUnit& unit, GradientUse use,
                     GradientMode mode);
  /// After the last micro-batch: the use's gradient ← the sum of all parts.
  void finish(OpContext& context, const ShardedUnit& unit, GradientUse use);

 private:
  struct Use {
    std::vector<Buffer> levels;  ///< sums of 1, 2, 4 … parts that wait
    int64_t begun = 0;           ///< micro-batches of this step
  };
  Use& use_of(const ShardedUnit& unit, GradientUse use) {
    return uses_.at(&unit.unit())[static_cast<size_t>(use)];
  }
  /// gradient ← with it all that waits for part `index`; returns the level of that sum.
  size_t join(OpContext& context, const Use& use, TensorView gradient, int64_t index) const;

  int64_t parts_;
  int64_t micro_batches_ = 0;
  std::unordered_map<const Unit*, std::array<Use, kGradientUses>> uses_;
};

}  // namespace plait
