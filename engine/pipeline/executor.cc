#include "engine/pipeline/executor.h"

#include <algorithm>

namespace plait {

Executor::Executor(Stage& stage, Clock& clock, int64_t slots, int64_t max_rows)
    : stage_(stage), clock_(clock), slots_(static_cast<size_t>(slots)), ring_(kRing) {
  for (SlotBuffers& slot : slots_) {
    for (auto* buffer : {&slot.tokens, &slot.targets, &slot.positions, &slot.first_visible}) {
      buffer->resize(static_cast<size_t>(max_rows));
    }
  }
}

Pass Executor::make_pass(OpContext& context, const RunArguments& arguments, int64_t micro) {
  const SlotBuffers& slot = slot_of(micro);
  Pass pass{context, arguments.batch, arguments.sequence};
  if (slot.has_documents) {
    pass.positions = slot.positions.data();
    pass.first_visible = slot.first_visible.data();
  }
  pass.first_sample = arguments.first_sample + micro * arguments.batch;
  pass.is_training = arguments.is_training;
  const bool is_first = micro == 0 && !arguments.is_accumulating;
  pass.mode = is_first ? GradientMode::kOverwrite : GradientMode::kAccumulate;
  return pass;
}

MicroBatch Executor::make_micro(const RunArguments& arguments, int64_t micro) {
  const SlotBuffers& slot = slot_of(micro);
  MicroBatch batch;
  batch.tokens = slot.tokens.data();
  batch.targets = slot.targets.data();
  batch.gradient_scale = arguments.gradient_scale;
  batch.is_headless = arguments.is_headless;
  if (arguments.losses != nullptr) {
    batch.losses = arguments.losses + micro * arguments.batch * arguments.sequence;
  }
  return batch;
}

void Executor::execute(OpContext& context, const Instruction& instruction,
                       const RunArguments& arguments, RunResult* result) {
  const int64_t micro = instruction.micro;
  const auto slot = static_cast<int64_t>(static_cast<size_t>(micro) % slots_.size());
  if (instruction.operation == Operation::kForward) {
    context.check_aborted();
    SlotBuffers& buffers = slot_of(micro);
    buffers.has_documents =
        arguments.source->fill(micro, {buffers.tokens.data(), buffers.targets.data(),
                                       buffers.positions.data(), buffers.first_visible.data()});
    const LossSum sum =
        stage_.forward(make_pass(context, arguments, micro), slot, make_micro(arguments, micro));
    result->sum.loss += sum.loss;
    result->sum.targets += sum.targets;
    return;
  }
  const Pass pass = make_pass(context, arguments, micro);
  const MicroBatch batch = make_micro(arguments, micro);
  switch (instruction.operation) {
    case Operation::kBackward:
      stage_.backward(pass, slot, batch);
      break;
    case Operation::kBackwardInput:
      stage_.backward_input(pass, slot, batch);
      break;
    case Operation::kBackwardWeight:
      stage_.backward_weight(pass, slot, batch);
      break;
    default:
      break;
  }
}

RunResult Executor::run(OpContext& context, const std::vector<Instruction>& list,
                        const RunArguments& arguments) {
  RunResult result;
  result.sum = arguments.start;
  for (const Instruction& instruction : list) {
    if (instruction.operation == Operation::kReduce || instruction.operation == Operation::kStep) {
      continue;
    }
    if (arguments.stop != nullptr && arguments.stop->load(std::memory_order_relaxed)) {
      result.is_stopped = true;
      return result;
    }
    const int64_t begin = clock_.now_ns();
    if (!context.is_measuring()) record(instruction, begin, 0);
    execute(context, instruction, arguments, &result);
    const int64_t end = clock_.now_ns();
    if (!context.is_measuring()) record(instruction, begin, end);
    const int64_t spent = end - begin;
    (instruction.operation == Operation::kForward ? result.forward_ns : result.backward_ns) +=
        spent;
  }
  return result;
}

void Executor::record(const Instruction& instruction, int64_t begin_ns, int64_t end_ns) {
  const std::lock_guard lock(ring_mutex_);
  const bool is_complete = end_ns != 0;
  const uint64_t number = is_complete ? executed_ - 1 : executed_++;
  ring_[number % kRing] = {instruction, number, begin_ns, end_ns, is_complete};
}

std::vector<ExecutedInstruction> Executor::recent() const {
  const std::lock_guard lock(ring_mutex_);
  const uint64_t count = executed_;
  std::vector<ExecutedInstruction> out;
  for (uint64_t i = count - std::min<uint64_t>(count, kRing); i < count; ++i) {
    out.push_back(ring_[i % kRing]);
  }
  return out;
}

}  // namespace plait
