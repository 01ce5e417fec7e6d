// Seconds of an operation on a description of hardware.
#pragma once

#include <cstdint>

#include "engine/planner/hardware.h"
#include "engine/planner/work.h"

namespace plait {

/// Members of a group as they lie on nodes.
struct GroupShape {
  int64_t members = 1;
  int64_t members_per_node = 1;
  int64_t nodes = 1;
};

/// Of an axis of `members` ranks, `stride` ranks apart.
GroupShape group_shape(const Hardware& hardware, int64_t members, int64_t stride);

/// `bytes` are those of the whole tensor. The hardware has lines inside a node where the group has
/// one, and over several nodes where it has more; make_job sees to that. Of several nodes, the rows
/// of the most members per node count that the group has itself; where all rows have more, the
/// group gets its share of their rate.
double all_reduce_seconds(const Hardware& hardware, const GroupShape& group, double bytes);
/// A reduce-scatter or an all-gather.
double half_collective_seconds(const Hardware& hardware, const GroupShape& group, double bytes);
/// From one rank to another; `is_within_node` says which link.
double transfer_seconds(const Hardware& hardware, bool is_within_node, double bytes);

/// Of `batch` products [m×k]·[k×n], the overhead of an operation included: a measured point of this
/// shape, else the mean efficiency of points within two octaves, else waves of tiles; never less
/// than the time to stream the three matrices.
double product_seconds(const Hardware& hardware, DType dtype, int64_t m, int64_t n, int64_t k,
                       int64_t batch);
double stream_seconds(const Hardware& hardware, double bytes);

/// Two activities that run at once: (xʳ + yʳ)^(1/r), r the overlap exponent.
double both_seconds(const Hardware& hardware, double x, double y);

}  // namespace plait
