// Runs a rank's list of a validated schedule: instruction → handler. Decides nothing.
//
// Thread: the rank's own. Buffers of micro-batches are made with the executor; a run allocates
// nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/operation_ring.h"
#include "engine/model/stage.h"
#include "engine/pipeline/transfers.h"
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

/// Which instructions of a list run. Host-driven accumulation runs a list's passes once a call and
/// what closes the step once.
enum class ListPart { kWhole, kAccumulate, kClose };

struct RunArguments {
  const MicroSource* source = nullptr;
  ListPart part = ListPart::kWhole;
  int64_t batch = 0;             ///< b
  int64_t sequence = 0;          ///< s
  int64_t first_sample = 0;      ///< ordinal of the first sample of micro-batch 0
  float gradient_scale = 0;      ///< S/N₀; 0: forward alone
  bool is_training = false;      ///< dropout is on
  bool is_accumulating = false;  ///< gradients of earlier calls are kept
  LossSum start;                 ///< of earlier calls: micro-batches add to it one by one
  bool is_headless = false;      ///< the residual stream alone, no loss
  int64_t traced_step = 0;       ///< number of the step for the trace; 0: nothing is kept
  float* losses = nullptr;       ///< [m·b·s]: each row's loss, or null
};

/// Sums over the micro-batches of a run and where its time went.
struct RunResult {
  LossSum sum;
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;
  int64_t bubble_ns = 0;  ///< waits for boundary tensors
  int64_t step_ns = 0;    ///< reduce, step and gather
};

/// What the owner of gradients and weights does for the instructions that are not passes. σ's chunk
/// on this rank.
class StepHandler {
 public:
  virtual ~StepHandler() = default;
  virtual void reduce(int64_t chunk) = 0;
  virtual void gather(int64_t chunk) = 0;
  virtual void release(int64_t chunk) = 0;
  virtual void step(const LossSum& sum) = 0;
};

/// A finished instruction of a traced step.
struct TraceEvent {
  Instruction instruction;
  int64_t step = 0;
  int64_t begin_ns = 0, end_ns = 0;
};

/// How much a trace of one rank may hold.
struct TraceRoom {
  int64_t instructions = 0;
  int64_t operations = 0;  ///< communication within them, kept by the ring
};

class Executor {
 public:
  struct Options {
    std::vector<Stage*> chunks;      ///< stage c·p + π stands at c; borrowed
    std::vector<int64_t> slots;      ///< micro-batches that each keeps alive
    Transfers* transfers = nullptr;  ///< borrowed
    StepHandler* handler = nullptr;  ///< borrowed
    OperationRing* ring = nullptr;   ///< borrowed
    Clock* clock = nullptr;          ///< borrowed
    int64_t pipeline = 1;            ///< p
    int64_t max_rows = 0;            ///< b·s of the largest micro-batch
  };
  explicit Executor(const Options& options);

  RunResult run(OpContext& context, const std::vector<Instruction>& list,
                const RunArguments& arguments);

  /// Makes room for the trace of coming runs and drops what was kept; none gives the room back. No
  /// run is under way. What finds no room is left out and counted.
  void trace(const TraceRoom& room);
  const std::vector<TraceEvent>& traced() const { return trace_; }
  int64_t untraced() const { return untraced_; }

 private:
  struct SlotBuffers {
    std::vector<int32_t> tokens, targets, positions, first_visible;
    bool has_documents = false;
  };
  struct Running;
  Stage& stage(const Instruction& instruction) const;
  int64_t chunk(const Instruction& instruction) const;
  int64_t slot(const Instruction& instruction) const;
  SlotBuffers& buffers(const Instruction& instruction);
  Pass make_pass(const Running& running, const Instruction& instruction);
  MicroBatch make_micro(const Running& running, const Instruction& instruction);
  TensorView boundary(const Running& running, const TensorView& buffer,
                      const Instruction& instruction) const;
  void execute(const Running& running, const Instruction& instruction, RunResult* result);
  void forward(const Running& running, const Instruction& instruction, RunResult* result);
  void transfer(const Running& running, const Instruction& instruction);
  void close(const Instruction& instruction, const RunResult& result);
  void run_one(const Running& running, const Instruction& instruction, RunResult* result);
  void keep(const TraceEvent& event);

  Options options_;
  std::vector<std::vector<SlotBuffers>> slots_;  // [chunk][slot]
  std::vector<TraceEvent> trace_;
  size_t trace_capacity_ = 0;
  int64_t untraced_ = 0;
};

}  // namespace plait
