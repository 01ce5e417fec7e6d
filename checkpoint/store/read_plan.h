// Which slices of a step feed which targets: pure arithmetic of boxes, before any byte is read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/store/step_state.h"

namespace plait {

/// A slice and a target that share elements.
struct ReadHit {
  SliceRef slice;
  uint32_t target = 0;
};

/// All of them, by (file, slice, target), so that every shard is read in one ascending pass. Slices
/// that no target meets are left out. Throws `invariant` for a target that the step does not have,
/// and unless the hits of each target make it up exactly once.
///
/// For each (tensor, kind) both sides are sorted and swept on the first dim: O((targets + slices)
/// log + pairs that share rows).
std::vector<ReadHit> plan_read(const OpenStep& step, std::span<const ReadTarget> targets);

}  // namespace plait
