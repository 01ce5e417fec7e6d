// The lists of the keys hardware.*, whose elements are JSON, as plain structs.
//
// Each make_… function throws `argument` for the first element that is no good: key, element (its
// place, from 0), field, value, what was expected, and `nearest`, a value or a field that would do.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "kernels/base/dtype.h"

namespace plait {

/// Cost of all-reduces in one shape of group: alpha + 2(n − 1)/n · bytes / bytes_per_second.
struct CollectiveLine {
  int64_t members_per_node = 1;
  int64_t nodes = 1;
  double alpha_seconds = 0;
  double bytes_per_second = 0;
  double residual = 0;  ///< largest relative error of the line where it was fitted
  /// {bytes, seconds} measured, ascending; kept where the line fits badly.
  std::vector<std::pair<double, double>> points;
};

/// Sending from one rank to another while all pairs do: alpha + bytes / bytes_per_second.
struct TransferLine {
  double alpha_seconds = 0;
  double bytes_per_second = 0;  ///< 0: not given
};

struct TransferLines {
  TransferLine node, fabric;
};

/// A measured matrix product [m×k]·[k×n], `batch` of them.
struct ProductPoint {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  DType dtype = DType::kFloat32;
  double seconds = 0;
};

struct ProductTile {
  int64_t rows = 0, columns = 0;
  double rate = 1;  ///< of the best tile's
};

/// hardware.collectives: objects; `residual` and `points` ([bytes, seconds] pairs, ascending) may
/// be left out. No two have the same shape, and none has a single member.
std::vector<CollectiveLine> make_collectives(const Config& config);

/// hardware.transfers: objects, at most one for each level.
TransferLines make_transfers(const Config& config);

/// hardware.matmul.points: objects; `batch` may be left out.
std::vector<ProductPoint> make_product_points(const Config& config);

/// hardware.matmul.tiles: [rows, columns, rate].
std::vector<ProductTile> make_product_tiles(const Config& config);

}  // namespace plait
