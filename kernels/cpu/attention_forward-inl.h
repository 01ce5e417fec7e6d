// Per target: forward of one unit. Scores are in units of log2: 2^(score·log2 e) = e^score.
// Included once for each Highway target.
#if defined(PLAIT_KERNELS_CPU_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_ATTENTION_FORWARD_INL_H_
#undef PLAIT_KERNELS_CPU_ATTENTION_FORWARD_INL_H_
#else
#define PLAIT_KERNELS_CPU_ATTENTION_FORWARD_INL_H_
#endif

#include <cmath>
#include <limits>

#include "kernels/cpu/attention_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

inline constexpr int64_t kForwardTile = kAttentionForwardTile;
inline constexpr float kLowest = std::numeric_limits<float>::lowest();

/// One unit's constants.
struct ForwardWork {
  const AttentionForward& arguments;
  AttentionScratch scratch;
  Tile tile;
};

/// What a block keeps from tile to tile; lane sums stand in scratch.
struct Running {
  float maximum[kAttentionBlock];
};

/// Largest visible score of a row and `maximum`. A NaN score may be passed over here: its
/// exponential makes the sum NaN.
HWY_INLINE float row_maximum(const float* scores, Span group, Span row, float maximum) {
  const F32 d;
  VectorF most = hn::Set(d, maximum);
  for_span(
      group, row,
      [&](int64_t v) HWY_ATTR {
        const auto score = hn::LoadU(d, scores + v);
        most = hn::Max(most, hn::IfThenElse(lanes_in(row, v), score, hn::Set(d, kLowest)));
      },
      [&](int64_t v) HWY_ATTR { most = hn::Max(most, hn::LoadU(d, scores + v)); });
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

/// Scores become 2^(score − maximum), 0 where the row sees nothing; returns their sum by lanes.
HWY_INLINE VectorF row_exponentials(float* scores, Span group, Span row, float maximum) {
  const F32 d;
  const VectorF most = hn::Set(d, maximum);
  VectorF sum = hn::Zero(d);
  for_span(
      group, row,
      [&](int64_t v) HWY_ATTR {
        const auto all = exp2_vector(hn::Sub(hn::LoadU(d, scores + v), most));
        const auto seen = hn::IfThenElseZero(lanes_in(row, v), all);
        hn::StoreU(seen, d, scores + v);
        sum = hn::Add(sum, seen);
      },
      [&](int64_t v) HWY_ATTR {
        const auto seen = exp2_vector(hn::Sub(hn::LoadU(d, scores + v), most));
        hn::StoreU(seen, d, scores + v);
        sum = hn::Add(sum, seen);
      });
  return sum;
}

/// Multiplies a row's probabilities by 0 or the scale.
HWY_INLINE void drop_row(const ForwardWork& work, const DropoutSite& site, int64_t query,
                         int64_t key, Span row, float* scores) {
  const F32 d;
  const Span whole = {row.first / kLanes * kLanes, attention_round_up(row.end, kLanes)};
  const float* factors =
      key_factors(site, query, {key + whole.first, key + whole.end}, work.scratch.factors);
  for (int64_t v = whole.first; v < whole.end; v += kLanes) {
    const VectorF factor = hn::LoadU(d, factors + (v - whole.first));
    hn::StoreU(hn::Mul(factor, hn::LoadU(d, scores + v)), d, scores + v);
  }
}

/// Softmax of one group's rows of a tile: scores become probabilities relative to the new maximum,
/// what was gathered so far is rescaled to it.
HWY_INLINE void soften_group(const ForwardWork& work, const QueryBlock& block, int64_t group,
                             const DropoutSite& site, Running& running) {
  const F32 d;
  const int64_t key = work.tile.key;
  const Span span = block.group_span(group, key, kForwardTile);
  if (span.is_empty()) return;
  const int64_t first = group * kAttentionGroup, end = block.group_end(group);
  float maximum[kAttentionGroup];
  for (int64_t row = first; row < end; ++row) {
    maximum[row - first] =
        row_maximum(work.scratch.scores + row * kForwardTile, span,
                    block.row_span(row, key, kForwardTile), running.maximum[row]);
  }
  for (int64_t row = first; row < end; ++row) {
    float* scores = work.scratch.scores + row * kForwardTile;
    const Span seen = block.row_span(row, key, kForwardTile);
    const float most = maximum[row - first];
    VectorF sum = row_exponentials(scores, span, seen, most);
    float* sums = work.scratch.sums + row * 16;
    if (running.maximum[row] == most) {
      sum = hn::Add(sum, hn::LoadU(d, sums));
    } else {
      const VectorF factor =
          exp2_vector(hn::Sub(hn::Set(d, running.maximum[row]), hn::Set(d, most)));
      sum = hn::MulAdd(factor, hn::LoadU(d, sums), sum);
      scale_row(work.scratch.output + row * work.tile.stride, work.tile.vectors,
                hn::GetLane(factor));
      running.maximum[row] = most;
    }
    hn::StoreU(sum, d, sums);
    if (site.dropout->is_active() && !seen.is_empty()) {
      drop_row(work, site, block.first + row, key, seen, scores);
    }
  }
}

/// Writes y and log_sum of a block of one query head.
HWY_NOINLINE void finish_block(const ForwardWork& work, const QueryBlock& block, int64_t sample,
                               int64_t head, const Running& running) {
  const F32 d;
  const AttentionShape& shape = work.arguments.shape;
  float factors[kAttentionBlock];
  float* log_sum = work.arguments.log_sum.as<float>() +
                   (sample * shape.heads + head) * shape.sequence + block.first;
  for (int64_t row = 0; row < block.rows; ++row) {
    const float sum = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, work.scratch.sums + row * 16)));
    factors[row] = 1.0f / sum;
    log_sum[row] = running.maximum[row] * 0.693147181f + std::log(sum);
  }
  const Stored y = stored_head(work.arguments.y, sample * shape.sequence + block.first,
                               head * shape.head_size, shape.head_size);
  store_rows({work.scratch.output, work.tile.stride}, factors, false, block.rows, y);
}

/// Asks for the next block's queries and this block's place in y.
HWY_INLINE void ask_for_block(ForwardWork& work, const AttentionUnit& unit, int64_t head,
                              const QueryBlock& block) {
  const AttentionShape& shape = work.arguments.shape;
  const int64_t size = shape.head_size, row0 = unit.sample * shape.sequence;
  FetchList& list = work.tile.fetcher.block;
  list.clear();
  const bool is_last = block.first + block.rows >= unit.end_query;
  const int64_t next = is_last ? unit.first_query : block.first + block.rows;
  list.add(stored_head(work.arguments.y, row0, head * size, size), block.first, block.rows, true);
  list.add(stored_head(work.arguments.qkv, row0, (head + is_last) * size, size), next,
           std::min(unit.end_query - next, kAttentionBlock), false);
}

HWY_NOINLINE void forward_head(ForwardWork& work, const AttentionUnit& unit, int64_t head) {
  const AttentionForward& arguments = work.arguments;
  const AttentionShape& shape = arguments.shape;
  const int64_t row0 = unit.sample * shape.sequence;
  const Stored queries = stored_head(arguments.qkv, row0, head * shape.head_size, shape.head_size);
  const int32_t* visible =
      arguments.first_visible == nullptr ? nullptr : arguments.first_visible + row0;
  const DropoutSite site = {
      &arguments.dropout, static_cast<uint64_t>(arguments.dropout.first_sample + unit.sample),
      static_cast<uint64_t>(shape.first_head + head), static_cast<uint64_t>(shape.sequence)};
  for (int64_t query = unit.first_query; query < unit.end_query; query += kAttentionBlock) {
    const QueryBlock block = query_block(visible, query, unit.end_query);
    pack_block(queries, block, {work.scratch.rows, work.tile.stride}, score_scale(shape.head_size),
               work.scratch.query_panel);
    ask_for_block(work, unit, head, block);
    Running running;
    std::fill(running.maximum, running.maximum + kAttentionBlock, kLowest);
    std::memset(work.scratch.sums, 0, sizeof(float) * 16 * kAttentionBlock);
    std::memset(work.scratch.output, 0,
                static_cast<size_t>(work.tile.stride * kAttentionBlock) * sizeof(float));
    const int64_t key_end = block.first + block.rows;
    work.tile.key = block.block_low / kForwardTile * kForwardTile;
    for (; work.tile.key < key_end; work.tile.key += kForwardTile) {
      multiply_panels<kForwardTile>(block, work.tile, work.scratch.query_panel,
                                    work.scratch.key_panels, work.scratch.scores);
      for (int64_t group = 0; group < block.groups(); ++group) {
        soften_group(work, block, group, site, running);
      }
      add_over_keys<kForwardTile>(
          block, work.tile, work.scratch.scores,
          {work.scratch.values + work.tile.key * work.tile.stride, work.tile.stride},
          work.scratch.output);
    }
    finish_block(work, block, unit.sample, head, running);
  }
}

/// Forward of one unit; `memory` is this thread's scratch. `next` is the likely next unit of this
/// thread; it may be empty.
inline void attention_forward_unit(const AttentionForward& arguments, const AttentionUnit& unit,
                                   const AttentionUnit& next, void* memory) {
  const AttentionShape& shape = arguments.shape;
  const int64_t size = shape.head_size, stride = attention_stride(shape);
  ForwardWork work = {arguments, attention_scratch(shape, false, memory), tile_of(shape)};
  const int64_t row0 = unit.sample * shape.sequence;
  int64_t low = unit.first_query;
  for (int64_t query = unit.first_query; query < unit.end_query; ++query) {
    const int32_t* visible = arguments.first_visible;
    low = std::min<int64_t>(low, visible == nullptr ? 0 : visible[row0 + query]);
  }
  low = low / kForwardTile * kForwardTile;
  const int64_t key_column = (shape.heads + unit.key_value_head) * size;
  const int64_t value_column = key_column + shape.key_value_heads * size;
  pack_panels(stored_head(arguments.qkv, row0, key_column, size), low, unit.end_query,
              {work.scratch.rows, stride}, work.scratch.key_panels);
  load_rows(stored_head(arguments.qkv, row0, value_column, size), low, unit.end_query - low,
            {work.scratch.values + low * stride, stride});
  ask_for_unit(arguments.qkv, shape, next, work.tile.fetcher.unit);
  const AttentionHeads heads = attention_heads(shape, unit.key_value_head);
  for (int64_t head = heads.first; head < heads.end; ++head) forward_head(work, unit, head);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_ATTENTION_FORWARD_INL_H_
