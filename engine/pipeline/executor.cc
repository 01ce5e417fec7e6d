#include "engine/pipeline/executor.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/mutation.h"

namespace plait {
namespace {

bool closes_step(Operation operation) {
  return operation == Operation::kReduce || operation == Operation::kStep;
}

/// Whether an instruction belongs to the part. What follows `step` closes it.
bool belongs(ListPart part, Operation operation, bool is_after_step) {
  if (part == ListPart::kWhole) return true;
  return (closes_step(operation) || is_after_step) == (part == ListPart::kClose);
}

/// While it lives, the ring keeps the communication of a traced run.
class Tracing {
 public:
  Tracing(OperationRing* ring, bool is_traced) : ring_(is_traced ? ring : nullptr) {
    if (ring_ != nullptr) ring_->set_tracing(true);
  }
  ~Tracing() {
    if (ring_ != nullptr) ring_->set_tracing(false);
  }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  OperationRing* ring_;
};

}  // namespace

struct Executor::Running {
  OpContext& context;
  const RunArguments& arguments;
};

Executor::Executor(const Options& options) : options_(options) {
  for (int64_t count : options_.slots) {
    std::vector<SlotBuffers> slots(static_cast<size_t>(count));
    for (SlotBuffers& slot : slots) {
      for (auto* buffer : {&slot.tokens, &slot.targets, &slot.positions, &slot.first_visible}) {
        buffer->resize(static_cast<size_t>(options_.max_rows));
      }
    }
    slots_.push_back(std::move(slots));
  }
}

int64_t Executor::chunk(const Instruction& instruction) const {
  return instruction.stage / options_.pipeline;
}

Stage& Executor::stage(const Instruction& instruction) const {
  return *options_.chunks[static_cast<size_t>(chunk(instruction))];
}

/// Micro-batches that are alive in a stage are consecutive, so their remainders differ.
int64_t Executor::slot(const Instruction& instruction) const {
  return instruction.micro % options_.slots[static_cast<size_t>(chunk(instruction))];
}

Executor::SlotBuffers& Executor::buffers(const Instruction& instruction) {
  return slots_[static_cast<size_t>(chunk(instruction))][static_cast<size_t>(slot(instruction))];
}

Pass Executor::make_pass(const Running& running, const Instruction& instruction) {
  const RunArguments& arguments = running.arguments;
  const SlotBuffers& slot = buffers(instruction);
  Pass pass{running.context, arguments.batch, arguments.sequence};
  if (slot.has_documents) {
    pass.positions = slot.positions.data();
    pass.first_visible = slot.first_visible.data();
  }
  const int64_t micro = is_mutated(Mutation::kDropoutSampleLocal) ? 0 : instruction.micro;
  pass.first_sample = arguments.first_sample + micro * arguments.batch;
  pass.is_training = arguments.is_training;
  const bool is_first = instruction.micro == 0 && !arguments.is_accumulating;
  pass.mode = is_first ? GradientMode::kOverwrite : GradientMode::kAccumulate;
  return pass;
}

MicroBatch Executor::make_micro(const Running& running, const Instruction& instruction) {
  const RunArguments& arguments = running.arguments;
  const SlotBuffers& slot = buffers(instruction);
  MicroBatch batch;
  batch.tokens = slot.tokens.data();
  batch.targets = slot.targets.data();
  batch.gradient_scale = arguments.gradient_scale;
  batch.is_headless = arguments.is_headless;
  if (arguments.losses != nullptr) {
    batch.losses = arguments.losses + instruction.micro * arguments.batch * arguments.sequence;
  }
  return batch;
}

/// The rows of a stage's buffer that the run's micro-batches use.
TensorView Executor::boundary(const Running& running, const TensorView& buffer,
                              const Instruction& instruction) const {
  const int64_t rows = running.arguments.batch * running.arguments.sequence;
  return first_rows(buffer, stage(instruction).stream_rows(rows));
}

void Executor::forward(const Running& running, const Instruction& instruction, RunResult* result) {
  running.context.check_aborted();
  SlotBuffers& slot_buffers = buffers(instruction);
  slot_buffers.has_documents = running.arguments.source->fill(
      instruction.micro, {slot_buffers.tokens.data(), slot_buffers.targets.data(),
                          slot_buffers.positions.data(), slot_buffers.first_visible.data()});
  const LossSum sum = stage(instruction)
                          .forward(make_pass(running, instruction), slot(instruction),
                                   make_micro(running, instruction));
  result->sum.loss += sum.loss;
  result->sum.targets += sum.targets;
}

/// A message is named by its destination stage; what is sent comes from that stage's neighbour.
void Executor::transfer(const Running& running, const Instruction& instruction) {
  const MessageKey key{instruction.micro, instruction.stage};
  Instruction local = instruction;
  switch (instruction.operation) {
    case Operation::kSendForward:
      local.stage -= 1;
      options_.transfers->send(running.context, Lane::kForward, key,
                               boundary(running, stage(local).output(slot(local)), local));
      break;
    case Operation::kSendBackward:
      local.stage += 1;
      options_.transfers->send(running.context, Lane::kBackward, key,
                               boundary(running, stage(local).gradient(slot(local)), local));
      break;
    case Operation::kReceiveForward:
      options_.transfers->receive(running.context, Lane::kForward, key,
                                  boundary(running, stage(local).input(slot(local)), local));
      break;
    default:
      options_.transfers->receive(running.context, Lane::kBackward, key,
                                  boundary(running, stage(local).gradient(slot(local)), local));
      break;
  }
}

void Executor::close(const Instruction& instruction, const RunResult& result) {
  switch (instruction.operation) {
    case Operation::kReduce:
      options_.handler->reduce(chunk(instruction));
      break;
    case Operation::kGather:
      options_.handler->gather(chunk(instruction));
      break;
    case Operation::kRelease:
      options_.handler->release(chunk(instruction));
      break;
    default:
      options_.handler->step(result.sum);
      break;
  }
}

void Executor::execute(const Running& running, const Instruction& instruction, RunResult* result) {
  switch (instruction.operation) {
    case Operation::kForward:
      forward(running, instruction, result);
      break;
    case Operation::kBackward:
      stage(instruction)
          .backward(make_pass(running, instruction), slot(instruction),
                    make_micro(running, instruction));
      break;
    case Operation::kBackwardInput:
      stage(instruction)
          .backward_input(make_pass(running, instruction), slot(instruction),
                          make_micro(running, instruction));
      break;
    case Operation::kBackwardWeight:
      stage(instruction)
          .backward_weight(make_pass(running, instruction), slot(instruction),
                           make_micro(running, instruction));
      break;
    case Operation::kSendForward:
    case Operation::kSendBackward:
    case Operation::kReceiveForward:
    case Operation::kReceiveBackward:
      transfer(running, instruction);
      break;
    default:
      close(instruction, *result);
      break;
  }
}

void Executor::run_one(const Running& running, const Instruction& instruction, RunResult* result) {
  if (running.context.is_measuring()) return execute(running, instruction, result);
  char name[OperationRecord::kNameBytes];
  write_instruction(instruction, name, sizeof name);
  const int64_t begin = options_.clock->now_ns();
  const uint64_t number = options_.ring->begin(name, 0, 0, false, begin);
  execute(running, instruction, result);
  const int64_t end = options_.clock->now_ns();
  options_.ring->end(number, end);
  if (running.arguments.traced_step != 0) {
    keep({instruction, running.arguments.traced_step, begin, end});
  }
  const int64_t spent = end - begin;
  switch (instruction.operation) {
    case Operation::kForward:
      result->forward_ns += spent;
      break;
    case Operation::kBackward:
    case Operation::kBackwardInput:
    case Operation::kBackwardWeight:
      result->backward_ns += spent;
      break;
    case Operation::kReceiveForward:
    case Operation::kReceiveBackward:
      result->bubble_ns += spent;
      break;
    default:
      result->step_ns += spent;
      break;
  }
}

RunResult Executor::run(OpContext& context, const std::vector<Instruction>& list,
                        const RunArguments& arguments) {
  RunResult result;
  result.sum = arguments.start;
  const Running running{context, arguments};
  const Tracing tracing(options_.ring, arguments.traced_step != 0);
  bool is_after_step = false;
  for (const Instruction& instruction : list) {
    if (belongs(arguments.part, instruction.operation, is_after_step)) {
      run_one(running, instruction, &result);
    }
    if (instruction.operation == Operation::kStep) is_after_step = true;
  }
  return result;
}

void Executor::keep(const TraceEvent& event) {
  if (trace_.size() < trace_capacity_) {
    trace_.push_back(event);
  } else {
    ++untraced_;
  }
}

void Executor::trace(const TraceRoom& room) {
  std::vector<TraceEvent> events;
  events.reserve(static_cast<size_t>(room.instructions));
  options_.ring->trace(room.operations);
  trace_.swap(events);
  trace_capacity_ = static_cast<size_t>(room.instructions);
  untraced_ = 0;
}

}  // namespace plait
