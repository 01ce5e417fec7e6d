#include "engine/schedule/schedule.h"

namespace plait {
namespace {

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
    case Operation::kReduce:
      return "reduce";
    case Operation::kStep:
      return "step";
  }
  return "";
}

}  // namespace

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
  }
  return "";
}

std::string instruction_text(const Instruction& instruction) {
  std::string text = operation_name(instruction.operation);
  if (instruction.operation == Operation::kStep) return text;
  return text + " " + std::to_string(instruction.micro) + " " + std::to_string(instruction.stage);
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
