// Names, operands and lanes of operations.
#pragma once

#include <array>

#include "engine/schedule/schedule.h"

namespace plait {

inline constexpr std::array kOperations = {
    Operation::kForward,        Operation::kBackward,        Operation::kBackwardInput,
    Operation::kBackwardWeight, Operation::kSendForward,     Operation::kSendBackward,
    Operation::kReceiveForward, Operation::kReceiveBackward, Operation::kGather,
    Operation::kRelease,        Operation::kReduce,          Operation::kStep};

inline constexpr std::array kScheduleKinds = {
    ScheduleKind::kGpipe, ScheduleKind::kOneForwardOneBackward, ScheduleKind::kInterleaved,
    ScheduleKind::kZeroBubble, ScheduleKind::kForwardOnly};

/// "forward", "send backward", …: the text of an instruction without its operands.
const char* operation_name(Operation operation);

/// 2: micro and stage; 1: stage; 0.
int operand_count(Operation operation);

inline bool is_send(Operation operation) {
  return operation == Operation::kSendForward || operation == Operation::kSendBackward;
}

inline bool is_receive(Operation operation) {
  return operation == Operation::kReceiveForward || operation == Operation::kReceiveBackward;
}

/// Of a send or receive: 0 for activations, 1 for gradients.
inline int direction_of(Operation operation) {
  return operation == Operation::kSendBackward || operation == Operation::kReceiveBackward ? 1 : 0;
}

/// Number of a message's lane, 0 … 2p − 1. Neighbours alone exchange messages, so the source
/// coordinate and the direction name a lane.
inline int64_t lane_of(const Instruction& message, int64_t pipeline) {
  return direction_of(message.operation) * pipeline + message_source(message, pipeline);
}

}  // namespace plait
