#include "kernels/cpu/linear_tiles.h"

#include <algorithm>

namespace plait {
namespace {

constexpr int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

/// Copying one element costs as much as multiplying it with this many.
constexpr double kCopyCost = 16.0;
/// Threads do not end together: this part of a tile is lost on top.
constexpr double kLastTile = 0.3;
/// Tiles for each thread beyond which still smaller ones are not worth a look.
constexpr int64_t kManyTiles = 8;

double estimate(const OutputTiles& tiles, int threads) {
  const double area = static_cast<double>(tiles.rows * tiles.columns);
  const double copies =
      kCopyCost / static_cast<double>(tiles.rows) + kCopyCost / static_cast<double>(tiles.columns);
  const double turns = static_cast<double>(divide_up(tiles.count(), threads));
  return area * (1.0 + copies) * (turns + (threads > 1 ? kLastTile : 0.0));
}

}  // namespace

InnerBlocks::InnerBlocks(int64_t inner_size, int64_t limit)
    : inner(inner_size), count(divide_up(inner_size, limit)), size(divide_up(inner_size, count)) {
  constexpr int64_t kStep = 8;
  size = std::min(round_up(size, kStep), limit);
  count = divide_up(inner, size);
}

int64_t max_tile_columns(const LinearCode& code, int64_t columns, int64_t inner) {
  const int64_t fitting = code.panel_floats / inner / code.panel_columns * code.panel_columns;
  const int64_t most = std::max(fitting, code.panel_columns);
  return std::min(most, round_up(columns, code.panel_columns));
}

int64_t max_tile_rows(const LinearCode& code, int64_t rows) {
  const int64_t most = kMaxTileRows / code.strip_rows * code.strip_rows;
  return std::min(most, round_up(rows, code.strip_rows));
}

OutputTiles choose_tiles(const LinearCode& code, int64_t rows, int64_t columns, int64_t inner,
                         int threads) {
  const int64_t most_rows = max_tile_rows(code, rows);
  const int64_t most_columns = max_tile_columns(code, columns, inner);
  OutputTiles best;
  double best_time = 0;
  for (int64_t row_parts = divide_up(rows, most_rows);; ++row_parts) {
    OutputTiles tiles;
    tiles.rows = round_up(divide_up(rows, row_parts), code.strip_rows);
    tiles.row_tiles = divide_up(rows, tiles.rows);
    for (int64_t column_parts = divide_up(columns, most_columns);; ++column_parts) {
      tiles.columns = round_up(divide_up(columns, column_parts), code.panel_columns);
      tiles.column_tiles = divide_up(columns, tiles.columns);
      const double time = estimate(tiles, threads);
      if (best.rows == 0 || time < best_time) {
        best = tiles;
        best_time = time;
      }
      if (tiles.columns == code.panel_columns || tiles.count() > kManyTiles * threads) break;
    }
    if (tiles.rows == code.strip_rows || tiles.row_tiles > kManyTiles * threads) break;
  }
  return best;
}

}  // namespace plait
