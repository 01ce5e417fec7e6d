#include "engine/schedule/operation.h"

#include <cstdio>

namespace plait {

const char* operation_name(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return "forward";
    case Operation::kBackward:
      return "backward";
    case Operation::kBackwardInput:
      return "backward_input";
    case Operation::kBackwardWeight:
      return "backward_weight";
    case Operation::kSendForward:
      return "send forward";
    case Operation::kSendBackward:
      return "send backward";
    case Operation::kReceiveForward:
      return "receive forward";
    case Operation::kReceiveBackward:
      return "receive backward";
    case Operation::kGather:
      return "gather";
    case Operation::kRelease:
      return "release";
    case Operation::kReduce:
      return "reduce";
    case Operation::kStep:
      return "step";
  }
  return "";
}

int operand_count(Operation operation) {
  if (operation == Operation::kStep) return 0;
  return operation == Operation::kGather || operation == Operation::kRelease ? 1 : 2;
}

const char* schedule_kind_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kGpipe:
      return "gpipe";
    case ScheduleKind::kOneForwardOneBackward:
      return "one_forward_one_backward";
    case ScheduleKind::kInterleaved:
      return "interleaved";
    case ScheduleKind::kZeroBubble:
      return "zero_bubble";
    case ScheduleKind::kForwardOnly:
      return "forward_only";
  }
  return "";
}

int64_t message_source(const Instruction& message, int64_t pipeline) {
  const int64_t step = direction_of(message.operation) == 0 ? pipeline - 1 : 1;
  return (message.stage + step) % pipeline;
}

int64_t message_destination(const Instruction& message, int64_t pipeline) {
  return message.stage % pipeline;
}

void write_instruction(const Instruction& instruction, char* text, size_t bytes) {
  const char* name = operation_name(instruction.operation);
  const auto micro = static_cast<long long>(instruction.micro);
  const auto stage = static_cast<long long>(instruction.stage);
  switch (operand_count(instruction.operation)) {
    case 2:
      std::snprintf(text, bytes, "%s %lld %lld", name, micro, stage);
      break;
    case 1:
      std::snprintf(text, bytes, "%s %lld", name, stage);
      break;
    default:
      std::snprintf(text, bytes, "%s", name);
      break;
  }
}

std::string instruction_text(const Instruction& instruction) {
  char text[64];
  write_instruction(instruction, text, sizeof text);
  return text;
}

std::string schedule_text(const Schedule& schedule) {
  const ScheduleShape& shape = schedule.shape;
  std::string text = "plait-schedule 1\nkind ";
  text += schedule_kind_name(shape.kind);
  text += " pipeline " + std::to_string(shape.pipeline) + " chunks " +
          std::to_string(shape.chunks) + " microbatches " + std::to_string(shape.micro_batches) +
          " zero " + std::to_string(shape.zero) + "\n";
  for (size_t coordinate = 0; coordinate < schedule.lists.size(); ++coordinate) {
    text += "pipeline " + std::to_string(coordinate) + "\n";
    for (const Instruction& instruction : schedule.lists[coordinate]) {
      text += instruction_text(instruction) + "\n";
    }
  }
  return text;
}

}  // namespace plait
