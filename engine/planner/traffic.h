// Bytes that a rank sends in a step, by axis and kind, from configuration and layout alone.
#pragma once

#include <cstdint>

#include "engine/planner/job.h"

namespace plait {

/// Bytes by kind of collective.
struct AxisTraffic {
  int64_t all_reduce = 0;
  int64_t reduce_scatter = 0;
  int64_t all_gather = 0;
  int64_t broadcast = 0;
  int64_t send_receive = 0;

  int64_t total() const {
    return all_reduce + reduce_scatter + all_gather + broadcast + send_receive;
  }
};

/// Sent by one rank.
struct RankTraffic {
  AxisTraffic tensor, pipeline, data;
};

/// Of `rank` (0 … world − 1) in one step of this engine.
RankTraffic rank_traffic(const Job& job, const LayoutConfig& layout, int64_t rank);

/// Bytes of a step by level, all ranks together divided by the ranks: a ring over several nodes
/// leaves each node once, the other edges stay inside.
struct LevelTraffic {
  double node = 0;
  double fabric = 0;
};
LevelTraffic level_traffic(const Job& job, const LayoutConfig& layout);

}  // namespace plait
