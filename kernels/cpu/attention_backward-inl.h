// Per target: backward of one unit, all query heads of a key/value head. Probabilities are made
// again from scores and log_sum; gradients of keys and values add up over heads, then query blocks,
// ascending. Included once for each Highway target.
#if defined(PLAIT_KERNELS_CPU_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_ATTENTION_BACKWARD_INL_H_
#undef PLAIT_KERNELS_CPU_ATTENTION_BACKWARD_INL_H_
#else
#define PLAIT_KERNELS_CPU_ATTENTION_BACKWARD_INL_H_
#endif

#include "kernels/cpu/attention_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

inline constexpr int64_t kBackwardTile = kAttentionBackwardTile;

/// One unit's constants.
struct BackwardWork {
  const AttentionBackward& arguments;
  AttentionScratch scratch;
  Tile tile;
};

/// Of each row of a block: log_sum in units of log2, and Σ grad_y·y, which is Σ P·grad_P.
struct RowTerms {
  float log_sum[kAttentionBlock];
  float delta[kAttentionBlock];
};

/// Scores become probabilities as they met the values (dropped: 0), their gradients become the
/// scores' times √D.
HWY_INLINE void row_gradients(float* scores, float* grads, Span group, Span row, float log_sum,
                              float delta) {
  const F32 d;
  const VectorF shift = hn::Set(d, log_sum), less = hn::Set(d, delta);
  for_span(
      group, row,
      [&](int64_t v) HWY_ATTR {
        const auto seen = lanes_in(row, v);
        const auto p = exp2_vector(hn::Sub(hn::LoadU(d, scores + v), shift));
        const auto grad = hn::Mul(p, hn::Sub(hn::LoadU(d, grads + v), less));
        hn::StoreU(hn::IfThenElseZero(seen, p), d, scores + v);
        hn::StoreU(hn::IfThenElseZero(seen, grad), d, grads + v);
      },
      [&](int64_t v) HWY_ATTR {
        const auto p = exp2_vector(hn::Sub(hn::LoadU(d, scores + v), shift));
        hn::StoreU(p, d, scores + v);
        hn::StoreU(hn::Mul(p, hn::Sub(hn::LoadU(d, grads + v), less)), d, grads + v);
      });
}

/// row_gradients with dropout: `factors` holds the row's from `group.first`, down to a whole
/// vector, on. `terms`: log_sum and delta.
HWY_INLINE void row_gradients_dropout(float* scores, float* grads, Span group, Span row,
                                      const float* terms, const float* factors) {
  const F32 d;
  const VectorF shift = hn::Set(d, terms[0]), less = hn::Set(d, terms[1]);
  for (int64_t v = group.first / kLanes * kLanes; v < group.end; v += kLanes) {
    const auto seen = lanes_in(row, v);
    const VectorF factor = hn::LoadU(d, factors);
    factors += kLanes;
    const auto p = exp2_vector(hn::Sub(hn::LoadU(d, scores + v), shift));
    const auto grad = hn::Mul(p, hn::MulSub(factor, hn::LoadU(d, grads + v), less));
    hn::StoreU(hn::IfThenElseZero(seen, hn::Mul(factor, p)), d, scores + v);
    hn::StoreU(hn::IfThenElseZero(seen, grad), d, grads + v);
  }
}

HWY_NOINLINE void tile_gradients(const BackwardWork& work, const QueryBlock& block,
                                 const DropoutSite& site, const RowTerms& terms) {
  const int64_t key = work.tile.key;
  for (int64_t group = 0; group < block.groups(); ++group) {
    const Span span = block.group_span(group, key, kBackwardTile);
    if (span.is_empty()) continue;
    for (int64_t row = group * kAttentionGroup; row < block.group_end(group); ++row) {
      float* scores = work.scratch.scores + row * kBackwardTile;
      float* grads = work.scratch.grad_scores + row * kBackwardTile;
      const Span seen = block.row_span(row, key, kBackwardTile);
      if (!site.dropout->is_active()) {
        row_gradients(scores, grads, span, seen, terms.log_sum[row], terms.delta[row]);
        continue;
      }
      const Span drawn = {key + span.first / kLanes * kLanes,
                          key + attention_round_up(span.end, kLanes)};
      const float* factors = key_factors(site, block.first + row, drawn, work.scratch.factors);
      const float pair[2] = {terms.log_sum[row], terms.delta[row]};
      row_gradients_dropout(scores, grads, span, seen, pair, factors);
    }
  }
}

/// Rows of the block, from `row` on, that run in groups which may see keys [key, key + 12) of the
/// tile: the first such run, empty when there is none.
HWY_INLINE Span next_run(const QueryBlock& block, int64_t tile_key, int64_t key, int64_t row) {
  Span run = {block.rows, block.rows};
  for (int64_t group = row / kAttentionGroup; group < block.groups(); ++group) {
    const Span span = block.group_span(group, tile_key, kBackwardTile);
    const bool sees = span.first <= key && key < span.end;
    if (!sees && run.first < block.rows) return {run.first, group * kAttentionGroup};
    if (sees && run.first == block.rows) run.first = group * kAttentionGroup;
  }
  return run;
}

/// to ← to + leftᵀ · right for rows of keys: left [block, tile], right rows of queries, `to` rows
/// of keys, its first that of the tile.
HWY_INLINE void add_over_queries(const QueryBlock& block, Tile& tile, const float* left,
                                 const float* right, float* to) {
  const int64_t end = std::min(block.first + block.rows - tile.key, kBackwardTile);
  for (int64_t v = 0; v < tile.vectors; v += 2) {
    for (int64_t key = 0; key < end; key += kAttentionGroup) {
      for (int64_t row = 0; row < block.rows;) {
        const Span run = next_run(block, tile.key, key, row);
        if (run.is_empty()) break;
        tile.fetcher.step();
        add_product<1>({left + run.first * kBackwardTile + key, kBackwardTile},
                       {right + run.first * tile.stride + v * kLanes, tile.stride},
                       {to + key * tile.stride + v * kLanes, tile.stride}, run.end - run.first,
                       v + 1 < tile.vectors);
        row = run.end;
      }
    }
  }
}

/// Packs a block of one head: queries, gradients of y, and the rows' terms.
HWY_NOINLINE void load_block(const BackwardWork& work, const QueryBlock& block, int64_t sample,
                             int64_t head, RowTerms& terms) {
  const F32 d;
  const AttentionBackward& arguments = work.arguments;
  const AttentionShape& shape = arguments.shape;
  const AttentionScratch& scratch = work.scratch;
  const int64_t row0 = sample * shape.sequence, size = shape.head_size, stride = work.tile.stride;
  pack_block(stored_head(arguments.qkv, row0, head * size, size), block, {scratch.rows, stride},
             score_scale(size), scratch.query_panel);
  pack_block(stored_head(arguments.grad_y, row0, head * size, size), block,
             {scratch.grad_rows, stride}, 1.0f, scratch.grad_panel);
  load_rows(stored_head(arguments.y, row0, head * size, size), block.first, block.rows,
            {scratch.output, stride});
  const float* log_sum =
      arguments.log_sum.as<float>() + (sample * shape.heads + head) * shape.sequence + block.first;
  for (int64_t row = 0; row < block.rows; ++row) {
    VectorF sum = hn::Zero(d);
    for (int64_t v = 0; v < work.tile.vectors; ++v) {
      const int64_t at = row * stride + v * kLanes;
      sum =
          hn::MulAdd(hn::LoadU(d, scratch.output + at), hn::LoadU(d, scratch.grad_rows + at), sum);
    }
    terms.delta[row] = hn::GetLane(hn::SumOfLanes(d, sum));
    terms.log_sum[row] = log_sum[row] * 1.44269504f;
  }
  std::memset(scratch.output, 0, static_cast<size_t>(stride * kAttentionBlock) * sizeof(float));
}

HWY_NOINLINE void backward_block(BackwardWork& work, const QueryBlock& block,
                                 const DropoutSite& site, const RowTerms& terms) {
  const AttentionScratch& scratch = work.scratch;
  Tile& tile = work.tile;
  const int64_t key_end = block.first + block.rows;
  for (tile.key = block.block_low / kBackwardTile * kBackwardTile; tile.key < key_end;
       tile.key += kBackwardTile) {
    const int64_t row = tile.key * tile.stride;
    multiply_panels<kBackwardTile>(block, tile, scratch.query_panel, scratch.key_panels,
                                   scratch.scores);
    multiply_panels<kBackwardTile>(block, tile, scratch.grad_panel, scratch.values,
                                   scratch.grad_scores);
    tile_gradients(work, block, site, terms);
    add_over_queries(block, tile, scratch.scores, scratch.grad_rows, scratch.grad_values + row);
    add_over_queries(block, tile, scratch.grad_scores, scratch.rows, scratch.grad_keys + row);
    add_over_keys<kBackwardTile>(block, tile, scratch.grad_scores,
                                 {scratch.keys + row, tile.stride}, scratch.output);
  }
}

/// Asks for the next block's queries, outputs and their gradients, and this block's place in the
/// gradient of queries.
HWY_INLINE void ask_for_block(BackwardWork& work, const AttentionUnit& unit, int64_t head,
                              const QueryBlock& block) {
  const AttentionBackward& arguments = work.arguments;
  const AttentionShape& shape = arguments.shape;
  const int64_t size = shape.head_size, row0 = unit.sample * shape.sequence;
  FetchList& list = work.tile.fetcher.block;
  list.clear();
  const bool is_last = block.first + block.rows >= unit.end_query;
  const int64_t next = is_last ? 0 : block.first + block.rows;
  const int64_t rows = std::min(unit.end_query - next, kAttentionBlock);
  const int64_t column = (head + is_last) * size;
  list.add(stored_head(arguments.grad_qkv, row0, head * size, size), block.first, block.rows, true);
  list.add(stored_head(arguments.qkv, row0, column, size), next, rows, false);
  if (head + is_last == shape.heads) return;
  list.add(stored_head(arguments.grad_y, row0, column, size), next, rows, false);
  list.add(stored_head(arguments.y, row0, column, size), next, rows, false);
}

HWY_NOINLINE void backward_head(BackwardWork& work, const AttentionUnit& unit, int64_t head) {
  const AttentionBackward& arguments = work.arguments;
  const AttentionShape& shape = arguments.shape;
  const int64_t row0 = unit.sample * shape.sequence;
  const int32_t* visible =
      arguments.first_visible == nullptr ? nullptr : arguments.first_visible + row0;
  const DropoutSite site = {
      &arguments.dropout, static_cast<uint64_t>(arguments.dropout.first_sample + unit.sample),
      static_cast<uint64_t>(shape.first_head + head), static_cast<uint64_t>(shape.sequence)};
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size));
  for (int64_t query = 0; query < shape.sequence; query += kAttentionBlock) {
    const QueryBlock block = query_block(visible, query, shape.sequence);
    RowTerms terms;
    load_block(work, block, unit.sample, head, terms);
    ask_for_block(work, unit, head, block);
    backward_block(work, block, site, terms);
    store_rows(
        {work.scratch.output, work.tile.stride}, &scale, true, block.rows,
        stored_head(arguments.grad_qkv, row0 + query, head * shape.head_size, shape.head_size));
  }
}

/// Backward of one unit; `memory` is this thread's scratch. `next` as in forward.
inline void attention_backward_unit(const AttentionBackward& arguments, const AttentionUnit& unit,
                                    const AttentionUnit& next, void* memory) {
  const AttentionShape& shape = arguments.shape;
  BackwardWork work = {arguments, attention_scratch(shape, true, memory), tile_of(shape)};
  const AttentionScratch& scratch = work.scratch;
  const int64_t size = shape.head_size, stride = work.tile.stride, sequence = shape.sequence;
  const int64_t row0 = unit.sample * sequence;
  const int64_t key_column = (shape.heads + unit.key_value_head) * size;
  const int64_t value_column = key_column + shape.key_value_heads * size;
  const Stored keys = stored_head(arguments.qkv, row0, key_column, size);
  pack_panels(keys, 0, sequence, {scratch.rows, stride}, scratch.key_panels);
  pack_panels(stored_head(arguments.qkv, row0, value_column, size), 0, sequence,
              {scratch.rows, stride}, scratch.values);
  load_rows(keys, 0, sequence, {scratch.keys, stride});
  const size_t bytes = static_cast<size_t>((sequence + kAttentionGroup) * stride) * sizeof(float);
  std::memset(scratch.grad_keys, 0, bytes);
  std::memset(scratch.grad_values, 0, bytes);
  work.tile.fetcher.unit.add(stored_head(arguments.grad_qkv, row0, key_column, size), 0, sequence,
                             true);
  work.tile.fetcher.unit.add(stored_head(arguments.grad_qkv, row0, value_column, size), 0, sequence,
                             true);
  ask_for_unit(arguments.qkv, shape, next, work.tile.fetcher.unit);
  const AttentionHeads heads = attention_heads(shape, unit.key_value_head);
  for (int64_t head = heads.first; head < heads.end; ++head) backward_head(work, unit, head);
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  const float one = 1.0f;
  store_rows({scratch.grad_keys, stride}, &scale, true, sequence,
             stored_head(arguments.grad_qkv, row0, key_column, size));
  store_rows({scratch.grad_values, stride}, &one, true, sequence,
             stored_head(arguments.grad_qkv, row0, value_column, size));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_ATTENTION_BACKWARD_INL_H_
