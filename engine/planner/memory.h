// Bytes that a rank keeps, by the categories of the arena, from configuration and layout alone.
//
// On a CPU two facts of the hardware come in: products keep weights in a second form whose padding
// depends on the instruction set (hardware.device.isa: name of the level that the kernels use), and
// kernels take scratch memory for each thread of a rank (hardware.device.units). Both are what a
// rank says of itself when links are measured. With them every category equals the arena's of the
// rank of its stage that takes most, except workspace where products are those of a library (bf16
// at the level amx), which is an estimate. Descriptions of other kinds of device know neither.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/planner/job.h"

namespace plait {

struct RankMemory {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t activations = 0;
  int64_t communication = 0;
  int64_t workspace = 0;

  int64_t total() const {
    return weights + gradients + optimizer + activations + communication + workspace;
  }
};

/// Of the ranks at pipeline coordinate `pipeline`; among them workspace alone differs by a few
/// bytes, and the largest is meant. Profiles of other software are judged by their engines' rules.
/// Host memory where asynchronous saves are staged is not part of it.
RankMemory rank_memory(const Job& job, const LayoutConfig& layout, int64_t pipeline);

/// The largest category of `memory`: "weights", "gradients", ….
const char* largest_category(const RankMemory& memory);

}  // namespace plait
