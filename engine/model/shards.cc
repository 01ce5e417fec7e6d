#include "engine/model/shards.h"

#include <algorithm>

#include "engine/model/logical_tensors.h"
#include "kernels/base/error.h"
#include "kernels/base/mutation.h"

namespace plait {

Shards::Shards(const ModelConfig& model, const TensorGroup& group, int64_t lane)
    : model_(model),
      group_(group),
      parts_(group.size * group.lanes),
      part_(group.index * group.lanes + lane) {
  const int64_t t = parts_, shared = model.key_value_heads;
  check(group.lanes == 1 || (shared % t == 0 && !group.is_sequence_parallel),
        "lanes share nothing");
  check(model.heads % t == 0, "query heads divide over the tensor group");
  check(model.feed_forward % t == 0, "the feed-forward size divides over the tensor group");
  check(shared % t == 0 || t % shared == 0, "key/value heads divide over the tensor group");
}

ShardRange Shards::split(int64_t count) const { return {part_ * (count / parts_), count / parts_}; }

ShardRange Shards::key_value_heads() const {
  const int64_t all = model_.key_value_heads;
  return {part_ * all / parts_, std::max<int64_t>(all / parts_, 1)};
}

ShardRange Shards::ids() const {
  const int64_t count = padded_vocabulary(model_.vocab_size, parts_) / group_.size;
  return {group_.index * count, count};
}

Segment Shards::cut(const TensorPart& part, int dim, ShardRange range) const {
  Segment segment = whole_segment(part.name, part.shape, 0, part.initial);
  segment.box.first[static_cast<size_t>(dim)] = range.first;
  segment.box.size[static_cast<size_t>(dim)] = range.count;
  segment.first_holder = group_.index;
  return segment;
}

Segment Shards::rows(const TensorPart& part, int64_t first_row) const {
  Segment segment = cut(part, 0, split(part.shape[0]));
  segment.first_row = first_row;
  return segment;
}

Segment Shards::columns(const TensorPart& part) const { return cut(part, 1, split(part.shape[1])); }

Segment Shards::key_value_rows(const TensorPart& part, int64_t first_row) const {
  const ShardRange heads = key_value_heads();
  const int64_t size = model_.head_size;
  Segment segment = cut(part, 0, {heads.first * size, heads.count * size});
  segment.first_row = first_row;
  segment.holders = std::max<int64_t>(group_.size / model_.key_value_heads, 1);
  segment.first_holder = group_.index / segment.holders * segment.holders;
  segment.is_partial = segment.holders > 1 && !is_mutated(Mutation::kSharedHeadTermsSkipped);
  return segment;
}

Segment Shards::vocabulary_rows(const TensorPart& part) const {
  const ShardRange held = ids();
  const int64_t first = std::min(held.first, part.shape[0]);
  return cut(part, 0, {first, std::min(held.count, part.shape[0] - first)});
}

Segment Shards::whole(const TensorPart& part) const {
  Segment segment = whole_segment(part.name, part.shape, 0, part.initial);
  segment.holders = group_.size;
  segment.is_partial = (group_.is_sequence_parallel && group_.size > 1) ||
                       is_mutated(Mutation::kWholeGradientSummed);
  return segment;
}

}  // namespace plait
