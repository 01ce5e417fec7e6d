// Messages, ZeRO brackets, reductions and the step, as the passes add them.
#include "engine/schedule/passes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "tests/engine/schedule/schedule_support.h"

using namespace plait;

namespace {

std::string list_text(const InstructionList& list) {
  std::string text;
  for (const Instruction& i : list) text += (text.empty() ? "" : ", ") + instruction_text(i);
  return text;
}

int64_t count(const InstructionList& list, Operation operation) {
  return std::count_if(list.begin(), list.end(),
                       [&](const Instruction& i) { return i.operation == operation; });
}

}  // namespace

TEST_CASE("a receive stands before the use, a send after the making", "[passes]") {
  const ScheduleShape shape{ScheduleKind::kInterleaved, 2, 2, 2, 0};
  const auto with_messages = [&](const Instruction& i) {
    return list_text(add_messages({i}, shape));
  };
  CHECK(with_messages({Operation::kForward, 1, 0}) == "forward 1 0, send forward 1 1");
  CHECK(with_messages({Operation::kForward, 1, 2}) ==
        "receive forward 1 2, forward 1 2, send forward 1 3");
  CHECK(with_messages({Operation::kForward, 1, 3}) == "receive forward 1 3, forward 1 3");
  CHECK(with_messages({Operation::kBackward, 1, 3}) == "backward 1 3, send backward 1 2");
  CHECK(with_messages({Operation::kBackward, 1, 2}) ==
        "receive backward 1 2, backward 1 2, send backward 1 1");
  CHECK(with_messages({Operation::kBackwardInput, 1, 0}) ==
        "receive backward 1 0, backward_input 1 0");
  CHECK(with_messages({Operation::kBackwardWeight, 1, 2}) == "backward_weight 1 2");
}

TEST_CASE("the ends of messages wrap at the borders of chunks", "[passes]") {
  // Stage 3 of p 3 is chunk 1 of coordinate 0: its activation comes from coordinate 2.
  const Instruction activation{Operation::kSendForward, 0, 3};
  CHECK(message_source(activation, 3) == 2);
  CHECK(message_destination(activation, 3) == 0);
  // The gradient that stage 2 consumes comes from stage 3 on coordinate 0.
  const Instruction gradient{Operation::kReceiveBackward, 0, 2};
  CHECK(message_source(gradient, 3) == 0);
  CHECK(message_destination(gradient, 3) == 2);
}

TEST_CASE("around a backward pass of ZeRO 3 inside a pipeline", "[passes]") {
  const InstructionList list = make(ScheduleKind::kGpipe, 3, 1, 1, 3).lists[1];
  CHECK(list_text(list) ==
        "gather 1, receive forward 0 1, forward 0 1, send forward 0 2, release 1, "
        "gather 1, receive backward 0 1, backward 0 1, send backward 0 0, release 1, reduce 0 1, "
        "step");
}

TEST_CASE("one coordinate has no messages", "[passes]") {
  const auto text = [](ScheduleKind kind, int64_t zero) {
    return list_text(make(kind, 1, 1, 2, zero).lists[0]);
  };
  CHECK(text(ScheduleKind::kOneForwardOneBackward, 0) ==
        "forward 0 0, backward 0 0, forward 1 0, backward 1 0, reduce 1 0, step");
  CHECK(text(ScheduleKind::kOneForwardOneBackward, 1) ==
        "forward 0 0, backward 0 0, forward 1 0, backward 1 0, reduce 1 0, step, gather 0");
  CHECK(text(ScheduleKind::kOneForwardOneBackward, 2) ==
        "forward 0 0, backward 0 0, reduce 0 0, forward 1 0, backward 1 0, reduce 1 0, step, "
        "gather 0");
  CHECK(text(ScheduleKind::kGpipe, 3) ==
        "gather 0, forward 0 0, release 0, gather 0, forward 1 0, release 0, "
        "gather 0, backward 0 0, release 0, reduce 0 0, gather 0, backward 1 0, release 0, "
        "reduce 1 0, step");
  CHECK(text(ScheduleKind::kZeroBubble, 0) ==
        "forward 0 0, backward_input 0 0, backward_weight 0 0, forward 1 0, backward_input 1 0, "
        "backward_weight 1 0, reduce 1 0, step");
  CHECK(list_text(make_forward_schedule({ScheduleKind::kGpipe, 1, 1, 2, 2}).lists[0]) ==
        "forward 0 0, forward 1 0");
  CHECK(list_text(make_forward_schedule({ScheduleKind::kGpipe, 1, 1, 1, 3}).lists[0]) ==
        "gather 0, forward 0 0, release 0");
}

TEST_CASE("every shape has as many messages, windows and reductions as it must", "[passes]") {
  each_shape(4, 8, [](const ScheduleShape& shape) {
    const Schedule schedule = make_schedule(shape);
    const int64_t v = shape.chunks, m = shape.micro_batches, stages = v * shape.pipeline;
    const bool is_forward_only = shape.kind == ScheduleKind::kForwardOnly;
    std::map<std::tuple<int, int64_t, int64_t>, int> ends;  // sends − receives, by key
    int64_t sends = 0;
    for (const InstructionList& list : schedule.lists) {
      for (const Instruction& i : list) {
        const bool is_forward =
            i.operation == Operation::kSendForward || i.operation == Operation::kReceiveForward;
        const bool is_send =
            i.operation == Operation::kSendForward || i.operation == Operation::kSendBackward;
        if (is_send) ++sends;
        if (is_send || is_forward || i.operation == Operation::kReceiveBackward) {
          ends[{is_forward, i.micro, i.stage}] += is_send ? 1 : -1;
        }
      }
      REQUIRE(count(list, Operation::kStep) == (is_forward_only ? 0 : 1));
      const int64_t passes = (is_forward_only ? 1 : 2) * v * m;
      const bool is_late = !is_forward_only && (shape.zero == 1 || shape.zero == 2);
      const int64_t gathers = shape.zero == 3 ? passes : is_late ? v : 0;
      REQUIRE(count(list, Operation::kGather) == gathers);
      REQUIRE(count(list, Operation::kRelease) == (shape.zero == 3 ? passes : 0));
      const int64_t reduces = is_forward_only ? 0 : shape.zero >= 2 ? v * m : v;
      REQUIRE(count(list, Operation::kReduce) == reduces);
    }
    REQUIRE(sends == (is_forward_only ? 1 : 2) * m * (stages - 1));
    REQUIRE(static_cast<int64_t>(ends.size()) == sends);
    for (const auto& [key, open] : ends) REQUIRE(open == 0);
  });
}
