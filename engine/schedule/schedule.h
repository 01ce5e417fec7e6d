// Who does what in which order: a schedule is a value, a pure function of a few integers. It knows
// nothing of tensors, devices or threads.
//
// m: micro-batches of a step, numbered from 0; p: pipeline coordinates; a virtual stage is numbered
// through the whole model. Kinds and lists follow PTD-P (2104.04473), GPipe (1811.06965) and the
// memory-neutral zero-bubble variant (2401.10241).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait {

enum class ScheduleKind { kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubble };

/// "gpipe", "one_forward_one_backward", …
const char* schedule_kind_name(ScheduleKind kind);

enum class Operation {
  kForward,
  kBackward,        ///< both parts
  kBackwardInput,   ///< gradients of inputs and of small vectors
  kBackwardWeight,  ///< gradients of matrices
  kReduce,          ///< gradients of the stage, complete after this micro-batch, come together
  kStep,            ///< the optimizer step; last in its list
};

struct Instruction {
  Operation operation = Operation::kForward;
  int64_t micro = 0;
  int64_t stage = 0;
  bool operator==(const Instruction&) const = default;
};

/// "forward 0 1"; "step" stands alone.
std::string instruction_text(const Instruction& instruction);

struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::kOneForwardOneBackward;
  int64_t pipeline = 1;
  int64_t chunks = 1;
  int64_t micro_batches = 1;
  int64_t zero = 0;
};

struct Schedule {
  ScheduleShape shape;
  std::vector<std::vector<Instruction>> lists;  ///< one for each pipeline coordinate
};

/// The whole list of every coordinate. Throws `argument` for a shape that the kind does not admit.
Schedule make_schedule(const ScheduleShape& shape);

/// Forward instructions alone, for evaluation.
Schedule make_forward_schedule(const ScheduleShape& shape);

/// Most micro-batches of one stage that are alive at once in a list: from its forward to the end of
/// its backward pass.
int64_t peak_alive(const std::vector<Instruction>& list);

/// Proves coverage and order; throws `invariant` naming list, line and instruction of the first
/// violation: each (micro, stage) forward once, then backward whole or in its two parts, ascending
/// micro-batches in each stage, one reduce after the last, one step at the end.
void validate(const Schedule& schedule);

/// Byte-stable text of a schedule.
std::string schedule_text(const Schedule& schedule);

}  // namespace plait
