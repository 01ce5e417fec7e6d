// The sums that close a step, on own slices: terms of tensor-partial segments, the two uses of a
// tied embedding, squares by logical tensor, and what the whole world must know alike.
//
// Each function is collective over the axis that it names, has one order of additions, and in a
// measuring pass takes its scratch memory and no more.
#pragma once

#include <cstdint>

#include "engine/optimizer/sharding/sharded_unit.h"

namespace plait {

/// Most elements that a sum over the tensor axis or a tied swap moves at a time: bounds scratch.
inline constexpr int64_t kSumChunk = int64_t{1} << 18;

/// Gradient of every tensor-partial segment ← Σ over its holders by ascending τ, on all of them.
/// Axis: tensor; local layouts are equal on its members.
void sum_partial_segments(OpContext& context, const ShardedChunks& chunks, Communicator& tensor);

/// This rank's end of a token embedding whose other copy lies on another pipeline coordinate.
struct TiedEnd {
  Communicator* pipeline = nullptr;
  int64_t peer = -1;
  bool is_owner = true;  ///< its gradient is the lookup's, the peer's the head's
};

/// Own slice of both ends ← lookup + head. Axis: pipeline, the two ends alone.
void sum_tied_ends(OpContext& context, const ShardedUnit& unit, const TiedEnd& end);

/// Own slice ← first use + second use, of a unit that has both here.
void sum_tied_uses(OpContext& context, const ShardedUnit& unit);

/// Which elements a rank counts, so that the world counts each once: those of its slices whose
/// segments it is the first holder of, but for the tied copy that is not the owner's.
struct Counting {
  int64_t tensor_index = 0;       ///< τ
  int64_t uncounted_tensor = -1;  ///< canonical index, −1: none
};

/// Σ g² by logical tensor in canonical order.
struct Squares {
  double* values = nullptr;  ///< [tensors]
  int64_t tensors = 0;
};

/// squares ← those of what this rank counts, in fp64.
void sum_squares_by_tensor(OpContext& context, const ShardedChunks& chunks,
                           const Counting& counting, const Squares& squares);

/// Bytes that travel from each member of a group to add up LocalSums and `tensors` squares.
int64_t world_sum_bytes(int64_t tensors);

/// The sums of the world from those of each rank, equal on all: over δ ascending, then τ (squares
/// alone; losses and targets are those of τ = 0), then π. `squares` then holds the world's.
/// `scratch`: world_sum_bytes for one member more than the largest group has. Axes: all three.
GlobalSums add_over_world(const StepGroups& groups, const LocalSums& sums, const Squares& squares,
                          void* scratch);

/// Members of the largest group.
int64_t largest_group(const StepGroups& groups);

}  // namespace plait
