#include "engine/planner/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/planner/simulate.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

using MessagePoints = std::vector<std::pair<double, double>>;

double as_real(int64_t value) { return static_cast<double>(value); }

/// Share of the tensor that crosses a link in a reduce-scatter or an all-gather.
double crossing_share(const GroupShape& group) {
  return as_real(group.members - 1) / as_real(group.members);
}

/// What an all-reduce of one group costs.
struct GroupLine {
  double alpha = 0;
  double rate = 0;
  const MessagePoints* points = nullptr;  // of exactly this shape
};

/// Rows of the table about a place on one of its axes.
struct RowsAround {
  const CollectiveLine* before = nullptr;  // the last below `below`
  const CollectiveLine* below = nullptr;   // the last that is not above
  const CollectiveLine* above = nullptr;   // the first above
};

/// `takes` picks rows; `axis` is what of them is compared with `place`.
template <class Takes>
RowsAround rows_around(const std::vector<CollectiveLine>& lines, Takes takes,
                       int64_t CollectiveLine::*axis, int64_t place) {
  RowsAround rows;
  for (const CollectiveLine& line : lines) {
    if (!takes(line)) continue;
    const int64_t at = line.*axis;
    if (at > place) {
      if (rows.above == nullptr || at < rows.above->*axis) rows.above = &line;
    } else if (rows.below == nullptr || at > rows.below->*axis) {
      rows.before = rows.below;
      rows.below = &line;
    } else if (rows.before == nullptr || at > rows.before->*axis) {
      rows.before = &line;
    }
  }
  return rows;
}

/// On the line through `a` and `b` in the logarithm of `axis`, also beyond them.
double along(const CollectiveLine& a, const CollectiveLine& b, int64_t CollectiveLine::*axis,
             double CollectiveLine::*figure, int64_t place) {
  const double whole = std::log2(as_real(b.*axis) / as_real(a.*axis));
  const double part = std::log2(as_real(place) / as_real(a.*axis));
  return a.*figure + (b.*figure - a.*figure) * part / whole;
}

/// Between rows both figures follow the logarithm of the axis; at the ends they are held, but for
/// the latency where it `grows` beyond the last row.
GroupLine line_at(const RowsAround& rows, int64_t CollectiveLine::*axis, int64_t place,
                  bool grows) {
  check(rows.below != nullptr || rows.above != nullptr,
        "a group of several members has a line of collectives");
  if (rows.below == nullptr) return {rows.above->alpha_seconds, rows.above->bytes_per_second};
  const CollectiveLine& row = *rows.below;
  if (row.*axis == place) {
    return {row.alpha_seconds, row.bytes_per_second, row.points.empty() ? nullptr : &row.points};
  }
  if (rows.above != nullptr) {
    return {along(row, *rows.above, axis, &CollectiveLine::alpha_seconds, place),
            along(row, *rows.above, axis, &CollectiveLine::bytes_per_second, place)};
  }
  if (!grows || rows.before == nullptr) return {row.alpha_seconds, row.bytes_per_second};
  const double alpha = along(*rows.before, row, axis, &CollectiveLine::alpha_seconds, place);
  return {std::max(alpha, 0.0), row.bytes_per_second};
}

/// Most members of a node among the rows over several nodes that are no more than `members`; else
/// the least of all, 0 without rows.
int64_t listed_members(const std::vector<CollectiveLine>& lines, int64_t members) {
  int64_t most = 0, least = 0;
  for (const CollectiveLine& line : lines) {
    if (line.nodes == 1) continue;
    const int64_t listed = line.members_per_node;
    if (listed <= members) most = std::max(most, listed);
    least = least == 0 ? listed : std::min(least, listed);
  }
  return most > 0 ? most : least;
}

GroupLine line_of(const Hardware& hardware, const GroupShape& group) {
  const std::vector<CollectiveLine>& lines = hardware.collectives;
  if (group.nodes == 1) {
    constexpr auto kAxis = &CollectiveLine::members_per_node;
    const auto rows = rows_around(
        lines, [](const CollectiveLine& line) { return line.nodes == 1; }, kAxis,
        group.members_per_node);
    return line_at(rows, kAxis, group.members_per_node, false);
  }
  constexpr auto kAxis = &CollectiveLine::nodes;
  const int64_t listed = listed_members(lines, group.members_per_node);
  const auto rows = rows_around(
      lines,
      [&](const CollectiveLine& line) { return line.nodes > 1 && line.members_per_node == listed; },
      kAxis, group.nodes);
  GroupLine line = line_at(rows, kAxis, group.nodes, true);
  if (listed > group.members_per_node) {
    line.rate *= as_real(group.members_per_node) / as_real(listed);
    line.points = nullptr;
  }
  return line;
}

/// Of an all-reduce that was measured at `points`: between them a power law, below them the time of
/// the first, beyond them the rate of the line.
double measured_seconds(const GroupLine& line, const GroupShape& group, double bytes) {
  const MessagePoints& points = *line.points;
  const auto next = std::lower_bound(
      points.begin(), points.end(), bytes,
      [](const std::pair<double, double>& point, double size) { return point.first < size; });
  if (next == points.begin()) return next->second;
  const auto& [from, seconds] = *std::prev(next);
  if (next == points.end()) {
    return seconds + 2 * crossing_share(group) * (bytes - from) / line.rate;
  }
  const double part = std::log2(bytes / from) / std::log2(next->first / from);
  return seconds * std::pow(next->second / seconds, part);
}

double product_flops(int64_t m, int64_t n, int64_t k, int64_t batch) {
  return 2 * as_real(m) * as_real(n) * as_real(k) * as_real(batch);
}

struct ProductShape {
  int64_t m, n, k, batch;
};

constexpr double kFarthest = 2;       // octaves
constexpr double kFarthestRatio = 4;  // the same as a factor
constexpr double kFarAway = std::numeric_limits<double>::infinity();

/// Squared distance in octaves; kFarAway where one size alone is too far.
double square_distance(const ProductPoint& point, const ProductShape& shape) {
  const double ratios[] = {as_real(point.m) / as_real(shape.m), as_real(point.n) / as_real(shape.n),
                           as_real(point.k) / as_real(shape.k),
                           as_real(point.batch) / as_real(shape.batch)};
  double sum = 0;
  for (const double ratio : ratios) {
    if (ratio > kFarthestRatio || ratio * kFarthestRatio < 1) return kFarAway;
    sum += std::log2(ratio) * std::log2(ratio);
  }
  return sum;
}

/// The measured time of this very product, else that at the mean efficiency of the nearest points;
/// none without points near by.
std::optional<double> seconds_by_points(const Hardware& hardware, DType dtype,
                                        const ProductShape& shape) {
  constexpr size_t kNearest = 4;
  struct Neighbour {
    double distance = kFarAway;  // squared
    double rate = 0;
  };
  std::array<Neighbour, kNearest + 1> nearest;  // ascending; the last place is for the next one
  for (const ProductPoint& point : hardware.points) {
    if (point.dtype != dtype) continue;
    const double distance = square_distance(point, shape);
    if (distance == 0) return point.seconds;
    if (distance > kFarthest * kFarthest) continue;
    nearest[kNearest] = {distance,
                         product_flops(point.m, point.n, point.k, point.batch) / point.seconds};
    for (size_t i = kNearest; i > 0 && nearest[i].distance < nearest[i - 1].distance; --i) {
      std::swap(nearest[i], nearest[i - 1]);
    }
  }
  double weights = 0, sum = 0;
  for (size_t i = 0; i < kNearest; ++i) {
    weights += 1 / nearest[i].distance;
    sum += nearest[i].rate / nearest[i].distance;
  }
  if (weights == 0) return std::nullopt;
  return product_flops(shape.m, shape.n, shape.k, shape.batch) * weights / sum;
}

double seconds_by_tiles(const Hardware& hardware, DType dtype, const ProductShape& shape) {
  const auto pieces = [](int64_t size, int64_t piece) {
    return as_real((size + piece - 1) / piece);
  };
  const double units = as_real(hardware.units);
  const double rate = hardware.peak(dtype) * hardware.product_efficiency;
  double least = std::numeric_limits<double>::infinity();
  for (const ProductTile& tile : hardware.tiles) {
    const double waves =
        pieces(shape.m, tile.rows) * pieces(shape.n, tile.columns) * as_real(shape.batch) / units;
    const double counted = waves <= 1 ? 1 : (waves + std::ceil(waves)) / 2;
    const double flops = 2 * as_real(tile.rows) * as_real(tile.columns) *
                         (as_real(shape.k) + hardware.product_k_overhead) * units;
    least = std::min(least, counted * flops / (rate * tile.rate));
  }
  return least;
}

}  // namespace

GroupShape group_shape(const Hardware& hardware, int64_t members, int64_t stride) {
  const int64_t devices = hardware.node_devices;
  const int64_t in_node = stride >= devices ? 1 : std::min(members, devices / stride);
  return {members, in_node, (members + in_node - 1) / in_node};
}

double all_reduce_seconds(const Hardware& hardware, const GroupShape& group, double bytes) {
  if (group.members == 1) return 0;
  const GroupLine line = line_of(hardware, group);
  if (line.points != nullptr) return measured_seconds(line, group, bytes);
  return line.alpha + 2 * crossing_share(group) * bytes / line.rate;
}

double half_collective_seconds(const Hardware& hardware, const GroupShape& group, double bytes) {
  if (group.members == 1) return 0;
  const GroupLine line = line_of(hardware, group);
  const double alpha = hardware.half_collective_alpha * line.alpha;
  if (line.points == nullptr) return alpha + crossing_share(group) * bytes / line.rate;
  return alpha + std::max(measured_seconds(line, group, bytes) - line.alpha, 0.0) / 2;
}

double transfer_seconds(const Hardware& hardware, bool is_within_node, double bytes) {
  const TransferLine& line = is_within_node ? hardware.node_transfer : hardware.fabric_transfer;
  return line.alpha_seconds + bytes / line.bytes_per_second;
}

double product_seconds(const Hardware& hardware, DType dtype, int64_t m, int64_t n, int64_t k,
                       int64_t batch) {
  const ProductShape shape{m, n, k, batch};
  const std::optional<double> by_points = seconds_by_points(hardware, dtype, shape);
  const double seconds = by_points ? *by_points : seconds_by_tiles(hardware, dtype, shape);
  const double elements =
      as_real(m) * as_real(k) + as_real(k) * as_real(n) + as_real(m) * as_real(n);
  const double bytes = as_real(dtype_size(dtype)) * as_real(batch) * elements;
  return std::max(seconds, stream_seconds(hardware, bytes)) + hardware.operation_seconds;
}

double stream_seconds(const Hardware& hardware, double bytes) {
  return bytes / (hardware.memory_bytes_per_second * hardware.stream_efficiency);
}

double both_seconds(const Hardware& hardware, double x, double y) {
  return overlapped_seconds(x, y, hardware.overlap_exponent);
}

}  // namespace plait
