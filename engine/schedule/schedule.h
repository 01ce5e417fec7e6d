// Who does what in which order: a schedule is a value, a pure function of a few integers. It knows
// nothing of tensors, devices or threads.
//
// m: micro-batches of a step, numbered from 0 (μ); p: pipeline coordinates (π); v: chunks of each;
// a virtual stage σ = c·p + π is numbered through the whole model. Kinds and lists follow PTD-P
// (2104.04473), GPipe (1811.06965) and the memory-neutral zero-bubble variant (2401.10241).
//
// Messages are named by direction, μ and destination σ. An activation into σ comes from σ − 1, a
// gradient from σ + 1; both ends are on the coordinate σ mod p of their stage. Messages from one
// coordinate to another in one direction form a lane, first in, first out, with room for one
// message: a send waits until the lane's previous message was received, and for nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

/// kForwardOnly: the lists of an evaluation.
enum class ScheduleKind { kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubble, kForwardOnly };

/// "gpipe", "one_forward_one_backward", …
const char* schedule_kind_name(ScheduleKind kind);

enum class Operation {
  kForward,
  kBackward,         ///< both parts
  kBackwardInput,    ///< gradients of inputs and of small vectors
  kBackwardWeight,   ///< gradients of matrices
  kSendForward,      ///< starts sending the activation that `stage`, the destination, consumes
  kSendBackward,     ///< the same for the gradient that `stage` consumes
  kReceiveForward,   ///< waits until the activation that `stage` consumes next is there
  kReceiveBackward,  ///< the same for a gradient
  kGather,           ///< weights of the stage become usable
  kRelease,          ///< gathered weights of the stage are dropped
  kReduce,  ///< gradients of the stage after this micro-batch come together over the data axis
  kStep,    ///< the optimizer step; only gathers follow it
};

/// `micro` is 0 where the text form has none (gather, release, step), `stage` is 0 for step.
struct Instruction {
  Operation operation = Operation::kForward;
  int64_t micro = 0;
  int64_t stage = 0;
  bool operator==(const Instruction&) const = default;
};

using InstructionList = std::vector<Instruction>;

/// "forward 0 1", "send backward 0 1", "gather 1"; "step" stands alone.
std::string instruction_text(const Instruction& instruction);
/// The same into text[0, bytes), cut and ended by a NUL; allocates nothing.
void write_instruction(const Instruction& instruction, char* text, size_t bytes);

/// Coordinates of the two ends of a send or receive in a pipeline of `pipeline` coordinates.
int64_t message_source(const Instruction& message, int64_t pipeline);
int64_t message_destination(const Instruction& message, int64_t pipeline);

struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::kOneForwardOneBackward;
  int64_t pipeline = 1;
  int64_t chunks = 1;
  int64_t micro_batches = 1;
  int64_t zero = 0;  ///< ZeRO stage, 0 … 3
  bool operator==(const ScheduleShape&) const = default;
};

struct Schedule {
  ScheduleShape shape;
  std::vector<InstructionList> lists;  ///< one for each pipeline coordinate
  bool operator==(const Schedule&) const = default;
};

/// The whole list of every coordinate, validated. Throws `argument` for a shape that the kind does
/// not admit: several chunks without interleaving or on one coordinate, micro-batches that are no
/// multiple of an interleaved pipeline, zero_bubble with ZeRO 2 or 3.
Schedule make_schedule(const ScheduleShape& shape);

/// Forward instructions and their messages alone, for evaluation, whatever kind `shape` names and
/// for any number of micro-batches. The result's kind is kForwardOnly.
Schedule make_forward_schedule(const ScheduleShape& shape);

/// Most micro-batches of one stage that are alive at once in a list with backward passes: from its
/// forward to the end of its backward pass. The first gives the largest over the list's stages.
int64_t peak_alive(const InstructionList& list);
int64_t peak_alive(const InstructionList& list, int64_t stage);

/// Most (micro, stage) pairs alive at once on a coordinate, by the closed formula of the kind; 0
/// for kForwardOnly, which keeps no state.
int64_t peak_of_table(const ScheduleShape& shape, int64_t coordinate);

/// Most micro-batches of one chunk of a coordinate alive at once, as `peak_alive` counts them in
/// the list, but by closed formula.
int64_t peak_of_table(const ScheduleShape& shape, int64_t coordinate, int64_t chunk);

/// Proves the whole schedule before a rank runs it; throws `invariant` naming the pipeline
/// coordinate, the line in `schedule_text` (from 1) and the instruction of the first violation, or
/// `argument` for a shape that no schedule has.
///
/// - Coverage: each (micro, stage) has one forward and one backward, or one backward_input and then
///   one backward_weight, on its coordinate, ascending micro-batches in each stage; one step at the
///   end of each list, after all reduces; reduces and gather/release as the ZeRO stage wants them;
///   as many micro-batches alive as the table says.
/// - Data flow: a result is sent once, before the next result of its direction; a message is
///   received once, before its use, and used before the next of its lane. One buffer for each
///   direction and end is therefore enough.
/// - No deadlock: lanes carry messages in the same order at both ends, and the graph of list order,
///   send → receive, and receive n → send n + 1 of each lane has no cycle.
void validate(const Schedule& schedule);

/// Byte-stable text of a schedule.
std::string schedule_text(const Schedule& schedule);

/// Inverse of `schedule_text`; also takes comments (`#` to the end of a line) and empty lines. The
/// result is validated. Throws `argument`, or `format` for another version, naming the line of the
/// text (from 1).
Schedule parse_schedule(std::string_view text);

}  // namespace plait
