#include "engine/schedule/passes.h"

#include "engine/schedule/shape.h"

namespace plait {
namespace {

/// Forwards use and make activations, backwards and their input parts gradients.
bool is_forward(const Instruction& i) { return i.operation == Operation::kForward; }

bool is_backward(const Instruction& i) {
  return i.operation == Operation::kBackward || i.operation == Operation::kBackwardInput;
}

}  // namespace

InstructionList add_reductions(const InstructionList& list, const ScheduleShape& shape) {
  InstructionList out;
  for (const Instruction& i : list) {
    out.push_back(i);
    const bool adds_gradients =
        i.operation == Operation::kBackward || i.operation == Operation::kBackwardWeight;
    if (adds_gradients && (shape.zero >= 2 || i.micro == shape.micro_batches - 1)) {
      out.push_back({Operation::kReduce, i.micro, i.stage});
    }
  }
  return out;
}

InstructionList add_weight_windows(const InstructionList& list, const ScheduleShape& shape) {
  if (shape.zero != 3) return list;
  InstructionList out;
  for (const Instruction& i : list) {
    const bool uses_weights = is_forward(i) || is_backward(i);
    if (uses_weights) out.push_back({Operation::kGather, 0, i.stage});
    out.push_back(i);
    if (uses_weights) out.push_back({Operation::kRelease, 0, i.stage});
  }
  return out;
}

InstructionList add_messages(const InstructionList& list, const ScheduleShape& shape) {
  const int64_t last = stage_count(shape) - 1;
  InstructionList out;
  for (const Instruction& i : list) {
    if (is_forward(i) && i.stage > 0) {
      out.push_back({Operation::kReceiveForward, i.micro, i.stage});
    }
    if (is_backward(i) && i.stage < last) {
      out.push_back({Operation::kReceiveBackward, i.micro, i.stage});
    }
    out.push_back(i);
    if (is_forward(i) && i.stage < last) {
      out.push_back({Operation::kSendForward, i.micro, i.stage + 1});
    }
    if (is_backward(i) && i.stage > 0) {
      out.push_back({Operation::kSendBackward, i.micro, i.stage - 1});
    }
  }
  return out;
}

InstructionList add_step(const InstructionList& list, const ScheduleShape& shape,
                         int64_t coordinate) {
  InstructionList out = list;
  out.push_back({Operation::kStep, 0, 0});
  if (shape.zero != 1 && shape.zero != 2) return out;
  for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
    out.push_back({Operation::kGather, 0, chunk * shape.pipeline + coordinate});
  }
  return out;
}

}  // namespace plait
