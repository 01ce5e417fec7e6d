// Runs a rank's list of a validated schedule: instruction → handler. Decides nothing.
//
// Thread: the rank's own. Buffers of micro-batches are made with the executor; a run allocates
// nothing.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/model/stage.h"
#include "engine/schedule/schedule.h"
#include "kernels/base/env.h"

namespace plait {

/// One micro-batch as a rank needs it. Written by a MicroSource into buffers of the executor.
struct MicroBuffers {
  int32_t* tokens = nullptr;         ///< [b·s]
  int32_t* targets = nullptr;        ///< [b·s]
  int32_t* positions = nullptr;      ///< [b·s]
  int32_t* first_visible = nullptr;  ///< [b·s]
};

/// The rows of a call, cut into micro-batches.
class MicroSource {
 public:
  virtual ~MicroSource() = default;
  /// Fills the buffers with micro-batch `micro`. Returns true when documents are set: positions and
  /// first_visible count then.
  virtual bool fill(int64_t micro, const MicroBuffers& buffers) const = 0;
};

struct RunArguments {
  const MicroSource* source = nullptr;
  int64_t batch = 0;             ///< b
  int64_t sequence = 0;          ///< s
  int64_t first_sample = 0;      ///< ordinal of the first sample of micro-batch 0
  float gradient_scale = 0;      ///< S/N₀; 0: forward alone
  bool is_training = false;      ///< dropout is on
  bool is_accumulating = false;  ///< gradients of earlier calls are kept
  LossSum start;                 ///< of earlier calls: micro-batches add to it one by one
  bool is_headless = false;      ///< the residual stream alone, no loss
  float* losses = nullptr;       ///< [m·b·s]: each row's loss, or null
  const std::atomic<bool>* stop = nullptr;  ///< looked at between micro-batches; or null
};

/// Sums over the micro-batches of a run and where its time went.
struct RunResult {
  LossSum sum;
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;
  bool is_stopped = false;  ///< ended early on `stop`
};

/// One executed instruction, for the report "operations".
struct ExecutedInstruction {
  Instruction instruction;
  uint64_t number = 0;
  int64_t begin_ns = 0, end_ns = 0;
  bool is_complete = false;  ///< false: still running, or ended by an error
};

class Executor {
 public:
  /// `stage` and `clock` are borrowed. `slots`: as many micro-batches as the stage keeps alive.
  Executor(Stage& stage, Clock& clock, int64_t slots, int64_t max_rows);

  /// Runs all but the closing `reduce` and `step`, which belong to the caller.
  RunResult run(OpContext& context, const std::vector<Instruction>& list,
                const RunArguments& arguments);

  /// The last kRing instructions, oldest first. Any thread.
  std::vector<ExecutedInstruction> recent() const;

 private:
  static constexpr size_t kRing = 1024;
  struct SlotBuffers {
    std::vector<int32_t> tokens, targets, positions, first_visible;
    bool has_documents = false;
  };
  Pass make_pass(OpContext& context, const RunArguments& arguments, int64_t micro);
  MicroBatch make_micro(const RunArguments& arguments, int64_t micro);
  void execute(OpContext& context, const Instruction& instruction, const RunArguments& arguments,
               RunResult* result);
  void record(const Instruction& instruction, int64_t begin_ns, int64_t end_ns);
  SlotBuffers& slot_of(int64_t micro) { return slots_[static_cast<size_t>(micro) % slots_.size()]; }

  Stage& stage_;
  Clock& clock_;
  std::vector<SlotBuffers> slots_;
  mutable std::mutex ring_mutex_;  // guards the ring, which any thread may read
  std::vector<ExecutedInstruction> ring_;
  uint64_t executed_ = 0;
};

}  // namespace plait
