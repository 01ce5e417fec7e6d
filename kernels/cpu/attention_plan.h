// How the attention kernels cut their work, and the fp32 scratch memory of one thread.
//
// Queries are taken in blocks, a block's rows in groups of twelve (what one register tile holds),
// keys in tiles. All cuts depend on the shape alone, so every sum has the same order on any number
// of threads.
#pragma once

#include <cstdint>

#include "kernels/ops/attention.h"

namespace plait {

inline constexpr int64_t kAttentionGroup = 12;         ///< rows of a register tile
inline constexpr int64_t kAttentionBlock = 48;         ///< queries of a block
inline constexpr int64_t kAttentionForwardTile = 192;  ///< keys of a tile, forward
inline constexpr int64_t kAttentionBackwardTile = 96;  ///< keys of a tile, backward
inline constexpr int64_t kAttentionPanel = 32;         ///< most keys of a packed panel
inline constexpr int64_t kAttentionGroups = kAttentionBlock / kAttentionGroup;

constexpr int64_t attention_round_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

/// Floats between rows of head-size vectors in scratch.
constexpr int64_t attention_stride(const AttentionShape& shape) {
  return attention_round_up(shape.head_size, 16);
}

/// One thread's scratch. W is the target's panel width, E = attention_round_up(D, 4), R =
/// attention_stride.
struct AttentionScratch {
  float* key_panels = nullptr;   ///< [S/W, E, W] keys transposed
  float* values = nullptr;       ///< [S, R]; backward: value panels [S/W, E, W]
  float* query_panel = nullptr;  ///< [block/12, E, 12] queries · log2(e)/√D, transposed
  float* rows = nullptr;         ///< [block, R] rows on their way into a panel
  float* scores = nullptr;       ///< [block, tile], then probabilities
  float* output = nullptr;       ///< [block, R] forward: y; backward: gradient of queries
  float* sums = nullptr;         ///< [block, 16] forward: partial sums of each row's lanes
  float* factors = nullptr;      ///< dropout's, of one row of a tile
  float* keys = nullptr;         ///< [S, R] from here on backward alone
  float* grad_keys = nullptr;    ///< [S + 12, R]
  float* grad_values = nullptr;  ///< [S + 12, R]
  float* grad_scores = nullptr;  ///< [block, tile]
  float* grad_panel = nullptr;   ///< [block/12, E, 12] output gradients, transposed
  float* grad_rows = nullptr;    ///< [block, R] output gradients
  int64_t bytes = 0;             ///< of all of it, a multiple of 64
};

/// Lays the scratch out from `base`, aligned to 64 bytes; with null only `bytes` is meant.
AttentionScratch attention_scratch(const AttentionShape& shape, bool is_backward, void* base);

/// What one call of a target's routine does: queries [first_query, end_query) (first_query a
/// multiple of the block) of all query heads that share one key/value head. Backward takes all
/// queries.
struct AttentionUnit {
  int64_t sample = 0;
  int64_t key_value_head = 0;
  int64_t first_query = 0;
  int64_t end_query = 0;
};

/// Query heads [first, end) that use a key/value head: those i with ⌊i·G/A⌋ = head.
struct AttentionHeads {
  int64_t first = 0;
  int64_t end = 0;
};
constexpr AttentionHeads attention_heads(const AttentionShape& shape, int64_t key_value_head) {
  const int64_t groups = shape.key_value_heads;
  return {(key_value_head * shape.heads + groups - 1) / groups,
          ((key_value_head + 1) * shape.heads + groups - 1) / groups};
}

}  // namespace plait
