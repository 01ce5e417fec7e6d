// Whether the ranks that hold copies of the same values still hold the same bits.
//
// Copies are: on the data axis what the ZeRO stage keeps whole; on the tensor axis the segments
// that several coordinates hold; on the pipeline axis the two ends of a tied embedding. Of each the
// rank hashes (XXH3) the weights that passes compute with, masters and moments.
//
// A check has two rounds. In the first every axis gathers hashes and all ranks agree on the first
// tensor whose copies differ, if any; in the second, which a healthy run never sees, every rank
// learns every holder's hash of that tensor, so all name the same rank.
//
// Thread: the rank's own. Collective over all three axes; nothing is allocated while all is well.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/optimizer/optimizer.h"
#include "engine/trainer/engine.h"
#include "kernels/base/error.h"
#include "kernels/ops/context.h"

namespace plait {

/// Values of one kind of a logical tensor on this rank, and which ranks hold the same.
struct ReplicaPart {
  int64_t tensor = 0;  ///< canonical index
  TensorKind kind = TensorKind::kParam;
  TensorView values;         ///< flat, of fixed address; may have no elements
  int64_t first_holder = 0;  ///< tensor coordinates [first_holder, first_holder + holders)
  int64_t holders = 1;
  bool is_on_all_data = false;  ///< on every data coordinate, else on the own one alone
  bool is_tied_end = false;     ///< the other end of the pipeline holds it too
};

/// What one holder has.
struct ReplicaCopy {
  int64_t rank = 0;
  uint64_t hash = 0;
};

/// Whose copy is wrong: with three copies or more the one that the majority outvotes; with two, or
/// without a majority, the one that differs from the first holder's.
struct Blame {
  int64_t rank = -1;
  bool is_outvoted = false;
};
/// `copies` by ascending rank, two of them different.
Blame blame(std::span<const ReplicaCopy> copies);

/// A tensor whose copies differ: the same on every rank of the world.
struct Divergence {
  int64_t tensor = 0;
  TensorKind kind = TensorKind::kParam;
  Blame blame;
  std::vector<ReplicaCopy> copies;  ///< by ascending rank
};

/// `replica_diverged` with the rank to blame, tensor, kind, step, and all copies by hash.
Error divergence_error(const Divergence& divergence, const std::string& tensor, int64_t step);

class ReplicaCheck {
 public:
  /// `groups` are borrowed. `parts`: all that the rank holds, tensors ascending, as many on every
  /// rank of its tensor and data groups. `has_tied_ends` is the same on all ranks.
  ReplicaCheck(const StepGroups& groups, std::vector<ReplicaPart> parts, bool has_tied_ends);

  /// The first tensor and kind whose copies differ. In a measuring pass takes its scratch memory
  /// and no more.
  std::optional<Divergence> run(OpContext& context) const;

 private:
  /// A run of bytes that one thread hashes.
  struct Piece {
    const char* data = nullptr;
    int64_t bytes = 0;
  };
  /// One rank's answer in the second round.
  struct Answer {
    int64_t set = -1;  ///< ranks with the same number hold copies of one another; −1: holds nothing
    uint64_t hash = 0;
  };

  int64_t count() const { return static_cast<int64_t>(parts_.size()); }
  int64_t widest() const;
  void hash(OpContext& context, uint64_t* pieces, uint64_t* hashes) const;
  int64_t compare_data(const uint64_t* own, uint64_t* all) const;
  int64_t compare_tensor(const uint64_t* own, uint64_t* all) const;
  int64_t compare_ends(const uint64_t* own, uint64_t* all) const;
  int64_t agree(int64_t place, uint64_t* all) const;
  Divergence ask_all(int64_t place, const uint64_t* own, Answer* answers) const;

  StepGroups groups_;
  std::vector<ReplicaPart> parts_;
  std::vector<Piece> pieces_;          // of all parts, in order
  std::vector<int64_t> piece_counts_;  // by part
  bool has_tied_ends_, has_data_copies_ = false, has_tensor_copies_ = false;
};

}  // namespace plait
