// How many ranks a model needs that fits into none of a world's layouts.
#include <algorithm>
#include <optional>

#include "engine/planner/enumerate.h"
#include "engine/planner/fixes.h"
#include "engine/planner/memory.h"
#include "engine/planner/rules.h"

namespace plait {
namespace {

constexpr int64_t kLargestWorld = int64_t{1} << 20;
constexpr int64_t kMostTries = 64;  // of worlds between one that is too small and twice as many

/// Of the layouts of each degrees the one that needs least memory; ranks are looked at from both
/// ends of the pipeline, where the tables are.
bool has_layout_that_fits(const Job& job) {
  LayoutConfig fixed;
  fixed.auto_keys = {"layout.tensor", "layout.pipeline", "layout.data"};
  fixed.recompute = RecomputeChoice::kFull;
  const bool is_canonical = job.precision.reduction == ReductionChoice::kCanonical;
  bool is_found = false;
  enumerate_layouts(job, fixed, [&](const LayoutConfig& degrees) {
    if (is_found) return;
    LayoutConfig layout = degrees;
    const bool has_data_alone = layout.tensor == 1 && layout.pipeline == 1;
    layout.zero = is_canonical ? 1 : has_data_alone || job.tries_zero3 ? 3 : 2;
    layout.sequence_parallel =
        !is_canonical && layout.tensor > 1 && job.train.sequence_length % layout.tensor == 0;
    if (!violated_rules(job, layout).empty()) return;
    const int64_t limit = job.hardware.memory_limit();
    for (int64_t i = 0; i < layout.pipeline; ++i) {
      const int64_t coordinate = i % 2 == 0 ? i / 2 : layout.pipeline - 1 - i / 2;
      if (rank_memory(job, layout, coordinate).total() > limit) return;
    }
    is_found = true;
  });
  return is_found;
}

}  // namespace

int64_t smallest_larger_world(const Job& job) {
  const int64_t node = job.hardware.node_devices;
  const bool has_fabric = job.hardware.fabric_transfer.bytes_per_second > 0;
  const int64_t largest = has_fabric ? kLargestWorld : node;
  Job larger = job;
  const auto fits_into = [&](int64_t world) {
    larger.world = world;
    return has_layout_that_fits(larger);
  };
  // Twice as many until they do, then whole nodes (or ranks of the first) in between.
  int64_t too_small = job.world, enough = 0;
  while (enough == 0 && too_small < largest) {
    const int64_t world = std::min(2 * too_small, largest);
    if (fits_into(world)) {
      enough = world;
    } else {
      too_small = world;
    }
  }
  const int64_t apart = (enough - too_small) / kMostTries;
  int64_t world = too_small;
  while (world < enough) {
    world += std::max<int64_t>(apart, 1);
    if (world > node && world % node != 0) world += node - world % node;
    if (world < enough && fits_into(world)) return world;
  }
  return enough;
}

}  // namespace plait
