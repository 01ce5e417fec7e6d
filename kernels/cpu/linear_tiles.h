// How a product is cut: outputs into tiles that threads take, the inner dimension into blocks.
#pragma once

#include <cstdint>

#include "kernels/cpu/linear_code.h"

namespace plait {

constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// Equal blocks of the inner dimension, none longer than `limit`: a function of the shape alone.
struct InnerBlocks {
  InnerBlocks(int64_t inner, int64_t limit);
  int64_t first(int64_t block) const { return block * size; }
  int64_t length(int64_t block) const {
    return first(block) + size < inner ? size : inner - first(block);
  }
  int64_t inner;
  int64_t count;
  int64_t size;
};

/// Tiles of the output. Their sizes follow the number of threads, and change no result.
struct OutputTiles {
  int64_t rows = 0;     ///< whole strips
  int64_t columns = 0;  ///< whole panels
  int64_t row_tiles = 0;
  int64_t column_tiles = 0;
  int64_t count() const { return row_tiles * column_tiles; }
};

/// Most rows of a tile: what one packed block of panels meets.
inline constexpr int64_t kMaxTileRows = 1024;

/// Most columns of a tile whose inner blocks have `inner` indices: its panels stay in the L2 cache.
int64_t max_tile_columns(const LinearCode& code, int64_t columns, int64_t inner);
/// Most rows of a tile.
int64_t max_tile_rows(const LinearCode& code, int64_t rows);

/// The least estimated time for `threads` threads.
OutputTiles choose_tiles(const LinearCode& code, int64_t rows, int64_t columns, int64_t inner,
                         int threads);

}  // namespace plait
