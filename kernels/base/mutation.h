// Faults that the mutation tests seed to prove that the equivalence matrix, and the simulation of
// power losses, see them.
//
// A source asks at the place of a fault whether it is in force. In the library the answer is the
// constant false, and nothing of the question is left in its code. The mutation tests compile the
// sources that ask a second time, with PLAIT_MUTATIONS defined, and say which fault is in force.
#pragma once

namespace plait {

enum class Mutation {
  kNone,
  // Sums over the tensor axis.
  kRowSumSkipped,           ///< outputs of row linears
  kColumnSumSkipped,        ///< input gradients of column linears
  kForeignTargetSkipped,    ///< logits of targets that another shard owns
  kPartialTermsSkipped,     ///< terms of norms, row biases and positions where the stream is cut
  kSharedHeadTermsSkipped,  ///< terms of key/value heads that ranks share
  kWholeGradientSummed,     ///< a gradient that each rank has whole is summed nevertheless
  // What a rank draws and counts.
  kPaddingCounted,       ///< padded ids take part in the softmax
  kWeightsDrawnLocally,  ///< initial weights by row of the local matrix
  kLayerIndexLocal,      ///< layers count from 0 on each virtual stage
  kDropoutRowLocal,      ///< masks by row of the cut stream
  kDropoutHeadLocal,     ///< masks by local head
  kDropoutSampleLocal,   ///< masks by sample of the micro-batch
  kReplayFromFirstRun,   ///< recompute starts each run of layers from the first run's input
  // Loss, scale and norm of a step.
  kTargetsNotSummed,        ///< targets: those of data rank 0 for every one
  kGradientDividedByCount,  ///< by the number of micro-batches, besides the one division
  kReplicaCounted,          ///< norm: a tensor on every rank that holds it
  kForeignSliceCounted,     ///< norm: slice 0 of the whole buffer, on every data rank
  kTiedCopyCounted,         ///< norm: both copies of a tied embedding
  kTiedSumSkipped,          ///< lookup and head of a tied embedding stay apart
  // The data axis.
  kDataSumSkipped,      ///< gradients of stages 0 and 1
  kSliceStartsLate,     ///< updates leave out the first 64 elements of a slice
  kSliceOverwritten,    ///< a reduced micro-batch replaces the sum of those before it
  kWeightsNotGathered,  ///< after the update
  // Messages between stages.
  kMessageKeySwapped,  ///< micro-batch and stage
  kForeignSliceSent,   ///< every tensor rank sends slice 0
  kCutStreamCutAgain,  ///< slices of rows that are the rank's own already
  // What a save of a checkpoint makes durable, in its order.
  kSkipSyncF1,  ///< data of a shard
  kSkipSyncF2,  ///< index of a shard
  kSkipSyncF3,  ///< manifest
  kSkipSyncF4,  ///< names inside the step
  kSkipSyncF5,  ///< name of the step
  kSkipSyncF6,  ///< contents of LATEST
  kSkipSyncF7,  ///< name of LATEST
  kSkipSyncF8,  ///< names of what is about to be deleted
};

#ifdef PLAIT_MUTATIONS
/// The one in force; changes only while no engine exists. Defined by the test.
extern Mutation active_mutation;
inline bool is_mutated(Mutation fault) { return fault == active_mutation; }
#else
constexpr bool is_mutated(Mutation) { return false; }
#endif

}  // namespace plait
