// Timings of collectives and of messages between ranks, on a thread of each.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/planner/cost.h"
#include "engine/planner/hardware.h"
#include "engine/trainer/measure_rank.h"

namespace plait {

/// Groups of `members` ranks, `stride` ranks apart, that tile a world.
struct GroupTiling {
  int64_t members = 1, stride = 1;
  GroupShape shape;
};

/// One tiling for each shape of group that layouts of `world` ranks can have, `node_devices` ranks
/// on a node, by ascending number of members.
std::vector<GroupTiling> group_tilings(int64_t world, int64_t node_devices);

/// What is the same on all ranks.
struct LinkProbe {
  std::vector<GroupTiling> tilings;
  std::vector<int64_t> sizes;  ///< bytes of messages, ascending
  uint32_t first_group = 0;    ///< ids of groups: groups_needed of them
  MeasureEffort effort;

  /// One for each tiling.
  uint32_t groups_needed() const { return static_cast<uint32_t>(tilings.size()); }
};

/// Up to `most_bytes`; `message_bytes` (0: none) is among them, the largest message of a plan.
std::vector<int64_t> message_sizes(int64_t most_bytes, int64_t message_bytes);

struct LinkCosts {
  std::vector<CollectiveLine> collectives;
  double half_collective_alpha = 0;
  std::optional<TransferLine> node, fabric;
};

/// Every rank calls it at once; the result is the same on all. Empty in a world of one.
LinkCosts measure_links(MeasureRank& rank, const LinkProbe& probe);

}  // namespace plait
