// The state of a rank as checkpoints see it: boxes of logical tensors that lie in contiguous runs
// of the rank's flat buffers, and which of them this rank writes.
//
// Runs are float32: masters (the weights themselves where weights are float32) and both moments. Of
// values that several ranks hold, one owns: the lowest tensor coordinate and the first stage that
// hold the box; among data coordinates that all hold it, the walk of `assign_replicas` over
// (tensor, kind, first of the box). Every rank computes the same answer alone.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "engine/trainer/rank.h"

namespace plait {

/// A box of one (logical tensor, kind), row-major at `data`.
struct StatePiece {
  int64_t tensor = 0;  ///< index in the sorted names (see `sorted_tensors`)
  StateKind kind = StateKind::kParam;
  Box box;  ///< never empty
  float* data = nullptr;
  bool is_owned = false;
};

/// Logical tensors by name bytes: what a manifest numbers. `canonical[i]` is the canonical index of
/// sorted tensor i.
struct SortedTensors {
  std::vector<SavedTensor> tensors;  ///< names and shapes alone
  std::vector<int64_t> canonical;
};
SortedTensors sorted_tensors(const std::vector<LogicalTensor>& tensors);

/// All pieces of the rank by (tensor, kind, first of the box). `weights_only`: no moments. The
/// addresses stay as long as the rank.
std::vector<StatePiece> state_pieces(Rank& rank, const SortedTensors& sorted, bool weights_only);

/// Proves that the weights that passes compute with are the rounded masters, as far as both lie on
/// this rank; throws `invariant` naming the tensor. On the rank's thread.
void check_rounding(Rank& rank);

/// Sorts the pieces of a rank by (tensor, kind, first of the box). Where all `coordinates` of the
/// data axis hold all of them (`is_whole`), each that is owned stays so on one of them only; `own`
/// is the rank's.
void settle_owners(std::vector<StatePiece>* pieces, bool is_whole, int64_t coordinates,
                   int64_t own);

/// The kind under which a run keeps its weights: param where weights are float32, else master.
StateKind weight_kind(DType compute);

}  // namespace plait
