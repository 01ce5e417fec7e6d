// Per target: one block of queries against one tile of keys, which part of it counts, and the
// masks. Included once for each Highway target.
#if defined(PLAIT_KERNELS_CPU_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_ATTENTION_BLOCK_INL_H_
#undef PLAIT_KERNELS_CPU_ATTENTION_BLOCK_INL_H_
#else
#define PLAIT_KERNELS_CPU_ATTENTION_BLOCK_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention_fetch-inl.h"
#include "kernels/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

/// Elements [first, end).
struct Span {
  int64_t first = 0;
  int64_t end = 0;
  bool is_empty() const { return end <= first; }
};

/// Queries [first, first + rows) of a sample and the first position that each may see.
struct QueryBlock {
  int64_t first = 0;
  int64_t rows = 0;
  int64_t low[kAttentionBlock] = {};
  int64_t group_low[kAttentionGroups] = {};  ///< least of a group's rows, down to a whole group
  int64_t block_low = 0;                     ///< least of all

  int64_t groups() const { return (rows + kAttentionGroup - 1) / kAttentionGroup; }
  int64_t group_end(int64_t group) const { return std::min((group + 1) * kAttentionGroup, rows); }

  /// Keys of the tile [key, key + tile), from `key` on, that some row of the group may see.
  Span group_span(int64_t group, int64_t key, int64_t tile) const {
    return {std::max<int64_t>(group_low[group] - key, 0),
            std::min(first + group_end(group) - key, tile)};
  }
  /// … that one row may see.
  Span row_span(int64_t row, int64_t key, int64_t tile) const {
    return {std::max<int64_t>(low[row] - key, 0), std::min(first + row + 1 - key, tile)};
  }
};

/// `first_visible` of the sample, or null.
inline QueryBlock query_block(const int32_t* first_visible, int64_t first, int64_t end) {
  QueryBlock block;
  block.first = first;
  block.rows = std::min(end - first, kAttentionBlock);
  block.block_low = first;  // all cuts of queries and keys fall on multiples of a group
  for (int64_t group = 0; group < block.groups(); ++group) {
    const int64_t group_first = group * kAttentionGroup;
    block.group_low[group] = first + group_first;
    for (int64_t row = group_first; row < block.group_end(group); ++row) {
      block.low[row] = first_visible == nullptr ? 0 : first_visible[first + row];
      block.group_low[group] = std::min(block.group_low[group], block.low[row]);
    }
    block.group_low[group] -= block.group_low[group] % kAttentionGroup;
    block.block_low = std::min(block.block_low, block.group_low[group]);
  }
  return block;
}

/// A tile of keys from `key` on, and the sizes of a head.
struct Tile {
  int64_t key = 0;
  int64_t depth = 0;    ///< D
  int64_t packed = 0;   ///< E: rows of a panel
  int64_t stride = 0;   ///< R
  int64_t vectors = 0;  ///< of D columns
  Fetcher fetcher;
};

inline Tile tile_of(const AttentionShape& shape) {
  const int64_t size = shape.head_size;
  return {
      0, size, attention_round_up(size, 4), attention_stride(shape), (size + kLanes - 1) / kLanes,
      {}};
}

/// to[row][key] ← left row · right panel for all that the groups may see, whole panels.
template <int64_t kTile>
HWY_INLINE void multiply_panels(const QueryBlock& block, Tile& tile, const float* left,
                                const float* right, float* to) {
  Span groups[kAttentionGroups];
  int64_t end = 0, first = kTile;
  for (int64_t group = 0; group < block.groups(); ++group) {
    groups[group] = block.group_span(group, tile.key, kTile);
    if (groups[group].is_empty()) continue;
    first = std::min(first, groups[group].first);
    end = std::max(end, groups[group].end);
  }
  for (int64_t key = first / kPanel * kPanel; key < end; key += kPanel) {
    const Operand panel = {right + (tile.key + key) * tile.packed, kPanel};
    for (int64_t group = 0; group < block.groups(); ++group) {
      if (groups[group].end <= key || groups[group].first >= key + kPanel) continue;
      const Operand rows = {left + group * tile.packed * kAttentionGroup, kAttentionGroup};
      const Result result = {to + group * kAttentionGroup * kTile + key, kTile};
      tile.fetcher.step();
      if (groups[group].end <= key + kLanes) {
        multiply_group<1, 1, false>(rows, panel, result, tile.depth);
      } else {
        multiply_group<2, 1, false>(rows, panel, result, tile.depth);
      }
    }
  }
}

/// to ← to + left · right for rows of queries: left [block, tile] over the tile's keys, right and
/// to rows of head-size vectors, right's first that of the tile.
template <int64_t kTile>
HWY_INLINE void add_over_keys(const QueryBlock& block, Tile& tile, const float* left, Operand right,
                              float* to) {
  for (int64_t v = 0; v < tile.vectors; v += 2) {
    for (int64_t group = 0; group < block.groups(); ++group) {
      const Span span = block.group_span(group, tile.key, kTile);
      if (span.is_empty()) continue;
      const int64_t row = group * kAttentionGroup;
      tile.fetcher.step();
      add_product<kTile>({left + row * kTile + span.first, 1},
                         {right.data + span.first * right.step + v * kLanes, right.step},
                         {to + row * right.step + v * kLanes, right.step}, span.end - span.first,
                         v + 1 < tile.vectors);
    }
  }
}

/// Lanes of the vector at element v that lie in the span.
HWY_INLINE hn::Mask<F32> lanes_in(Span span, int64_t v) {
  const I32 d;
  const auto index = hn::Iota(d, static_cast<int32_t>(v));
  const auto first = hn::Set(d, static_cast<int32_t>(span.first));
  const auto end = hn::Set(d, static_cast<int32_t>(span.end));
  return hn::RebindMask(F32(), hn::AndNot(hn::Lt(index, first), hn::Lt(index, end)));
}

/// Calls edge(v) for each vector that holds an element of `group` and is not wholly in `row`, and
/// body(v) for each that is, in ascending order.
template <class Edge, class Body>
HWY_INLINE void for_span(Span group, Span row, const Edge& edge, const Body& body) {
  int64_t v = group.first / kLanes * kLanes;
  const int64_t whole_end = row.end / kLanes * kLanes;
  const int64_t whole_first = attention_round_up(row.first, kLanes);
  if (whole_first < whole_end) {
    for (; v < whole_first; v += kLanes) edge(v);
    for (; v < whole_end; v += kLanes) body(v);
  }
  for (; v < group.end; v += kLanes) edge(v);
}

/// Which random elements a (sample, head) draws.
struct DropoutSite {
  const Dropout* dropout = nullptr;
  uint64_t sample = 0;    ///< ordinal in the run
  uint64_t head = 0;      ///< global
  uint64_t sequence = 0;  ///< S
};

/// Factors (0 or the scale) of keys [first, end) of one query; key's stands at result[key − first].
/// `buffer` has room for end − first + kDropoutSlack.
HWY_NOINLINE const float* key_factors(const DropoutSite& site, int64_t query, Span keys,
                                      float* buffer) {
  const uint64_t row = (site.head * site.sequence + static_cast<uint64_t>(query)) * site.sequence;
  return dropout_factors(F32(), *site.dropout, site.sample, row + static_cast<uint64_t>(keys.first),
                         keys.end - keys.first, buffer);
}

/// Asks for the keys and values of a unit and the first queries.
HWY_INLINE void ask_for_unit(const TensorView& qkv, const AttentionShape& shape,
                             const AttentionUnit& unit, FetchList& list) {
  const int64_t size = shape.head_size, row0 = unit.sample * shape.sequence;
  const int64_t column = shape.heads + unit.key_value_head;
  list.add(stored_head(qkv, row0, column * size, size), 0, unit.end_query, false);
  list.add(stored_head(qkv, row0, (column + shape.key_value_heads) * size, size), 0, unit.end_query,
           false);
  list.add(stored_head(qkv, row0, attention_heads(shape, unit.key_value_head).first * size, size),
           unit.first_query, std::min(unit.end_query - unit.first_query, kAttentionBlock), false);
}

/// Log2(e)/√D.
inline float score_scale(int64_t head_size) {
  return static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(head_size)));
}

HWY_INLINE void scale_row(float* row, int64_t vectors, float factor) {
  const F32 d;
  const VectorF scale = hn::Set(d, factor);
  for (int64_t v = 0; v < vectors; ++v) {
    float* p = row + v * kLanes;
    hn::StoreU(hn::Mul(hn::LoadU(d, p), scale), d, p);
  }
}

/// Widens a block's rows of one head into `rows`, and transposed into a left panel, times `scale`.
HWY_NOINLINE void pack_block(const Stored& from, const QueryBlock& block, Result rows, float scale,
                             float* panel) {
  const int64_t packed = attention_round_up(from.columns, 4);
  const int64_t groups = block.groups();
  load_rows(from, block.first, block.rows, rows);
  std::memset(
      rows.data + block.rows * rows.stride, 0,
      static_cast<size_t>((groups * kAttentionGroup - block.rows) * rows.stride) * sizeof(float));
  for (int64_t group = 0; group < groups; ++group) {
    transpose(rows.data + group * kAttentionGroup * rows.stride, rows.stride, kAttentionGroup,
              packed, {panel + group * kAttentionGroup * packed, kAttentionGroup});
  }
  if (scale != 1.0f) scale_row(panel, groups * kAttentionGroup * packed / kLanes, scale);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_ATTENTION_BLOCK_INL_H_
