#include "engine/optimizer/sharding/batch_parts.h"

#include <bit>

#include "kernels/base/error.h"
#include "kernels/ops/span.h"

namespace plait {

BatchParts::BatchParts(int64_t parts, const ShardedChunks& chunks, Device& device) : parts_(parts) {
  check(parts >= 1 && std::has_single_bit(static_cast<uint64_t>(parts)),
        "the parts of a batch are a power of two");
  for (const auto& units : chunks) {
    for (const ShardedUnit& unit : units) {
      auto& uses = uses_[&unit.unit()];
      for (const GradientUse use : {GradientUse::kFirst, GradientUse::kSecond}) {
        for (int64_t level = 1; level < parts && unit.has_use(use); level *= 2) {
          uses[static_cast<size_t>(use)].levels.push_back(
              device.allocate(unit.gradient(use).bytes(), MemoryCategory::kGradients));
        }
      }
    }
  }
}

void BatchParts::begin_step(int64_t micro_batches) {
  check(micro_batches % parts_ == 0, "a batch has micro-batches for each of its parts");
  micro_batches_ = micro_batches;
  for (auto& [unit, uses] : uses_) {
    for (Use& use : uses) use.begun = 0;
  }
}

size_t BatchParts::join(OpContext& context, const Use& use, TensorView gradient,
                        int64_t index) const {
  size_t level = 0;
  for (; ((index >> level) & 1) != 0; ++level) {
    add_span(context, use.levels[level].view(DType::kFloat32, gradient.shape), gradient);
  }
  return level;
}

GradientMode BatchParts::begin(OpContext& context, const ShardedUnit& unit, GradientUse use,
                               GradientMode mode) {
  if (parts_ == 1 || context.is_measuring()) return mode;
  Use& own = use_of(unit, use);
  const int64_t done = own.begun++, length = micro_batches_ / parts_;
  if (done % length != 0) return GradientMode::kAccumulate;
  if (done == 0) return GradientMode::kOverwrite;
  const TensorView gradient = unit.gradient(use);
  const size_t level = join(context, own, gradient, done / length - 1);
  convert_span(context, gradient, own.levels[level].view(DType::kFloat32, gradient.shape));
  return GradientMode::kOverwrite;
}

void BatchParts::finish(OpContext& context, const ShardedUnit& unit, GradientUse use) {
  if (parts_ == 1 || context.is_measuring()) return;
  const Use& own = use_of(unit, use);
  check(own.begun == micro_batches_, "every micro-batch has its gradient");
  join(context, own, unit.gradient(use), parts_ - 1);
}

}  // namespace plait
