// What the validator says of particular faults.
#include <catch2/catch.hpp>
#include <utility>

#include "tests/engine/schedule/schedule_support.h"

using namespace plait;

namespace {

using Kind = ScheduleKind;

/// The message about `schedule` after `change` of its lists; "" when it is valid.
template <class Change>
std::string refused(Schedule schedule, const Change& change) {
  change(schedule.lists);
  return message_of([&] { validate(schedule); });
}

size_t index_of(const InstructionList& list, const std::string& text) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (instruction_text(list[i]) == text) return i;
  }
  FAIL("there is no " + text);
  return 0;
}

void drop(InstructionList& list, const std::string& text) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(index_of(list, text)));
}

/// Moves the instruction `text` in front of the instruction `where`.
void move_before(InstructionList& list, const std::string& text, const std::string& where) {
  const Instruction moved = list[index_of(list, text)];
  drop(list, text);
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(index_of(list, where)), moved);
}

}  // namespace

TEST_CASE("coverage and order", "[validate]") {
  const Schedule good = make(Kind::kOneForwardOneBackward, 2, 1, 3);
  CHECK(refused(good, [](auto&) {}) == "");
  CHECK(refused(good, [](auto& l) { drop(l[0], "forward 0 0"); }) ==
        "invariant: a send follows the instruction that makes its message; pipeline=0 line=4 "
        "instruction=\"send forward 0 1\"");
  CHECK(refused(good, [](auto& l) { std::swap(l[0][0], l[0][2]); }) ==
        "invariant: a stage runs forward once for each micro-batch, ascending; pipeline=0 line=4 "
        "instruction=\"forward 1 0\"");
  CHECK(contains(refused(good, [](auto& l) { l[0].pop_back(); }), "a step at its end"));
  CHECK(contains(refused(good,
                         [](auto& l) {
                           l[0].insert(l[0].begin(), Instruction{Operation::kBackward, 0, 0});
                         }),
                 "backward follows forward; pipeline=0 line=4 instruction=\"backward 0 0\""));
  CHECK(contains(refused(good, [](auto& l) { l[0][0].stage = 1; }), "a stage of its coordinate"));
  CHECK(contains(refused(good, [](auto& l) { l[0][0].micro = 3; }), "a micro-batch of the step"));
  CHECK(contains(refused(good, [](auto& l) { l[0].push_back(l[0][0]); }), "only gathers follow"));
  CHECK(contains(refused(good,
                         [](auto& l) {
                           l[0].push_back({Operation::kGather, 0, 0});
                         }),
                 "only ZeRO 1 and 2 gather after the step"));
  // A list's line is counted through the whole text: 3 + 14 + 1 lines stand before list 1.
  REQUIRE(good.lists[0].size() == 14);
  CHECK(contains(
      refused(good, [](auto& l) { std::swap(l[1][0], l[1][1]); }),
      "follows the receive of its message; pipeline=1 line=19 instruction=\"forward 0 1\""));
}

TEST_CASE("the parts of a backward pass", "[validate]") {
  const Schedule good = make(Kind::kZeroBubble, 1, 1, 2);
  CHECK(contains(
      refused(good,
              [](auto& l) { move_before(l[0], "backward_weight 0 0", "backward_input 0 0"); }),
      "backward_weight follows backward_input"));
  CHECK(contains(refused(good, [](auto& l) { drop(l[0], "backward_weight 0 0"); }),
                 "more micro-batches are alive"));
  CHECK(contains(refused(good, [](auto& l) { drop(l[0], "backward_weight 1 0"); }),
                 "once, after its last weight gradient"));
  CHECK(contains(
      refused(make(Kind::kZeroBubble, 2, 1, 2),
              [](auto& l) { move_before(l[1], "backward_weight 1 1", "backward_weight 0 1"); }),
      "weight gradients once for each micro-batch"));
  const auto split = [](auto& l) {
    l[0][1] = {Operation::kBackwardInput, 0, 0};
    l[0].insert(l[0].begin() + 2, Instruction{Operation::kBackwardWeight, 0, 0});
  };
  CHECK(contains(refused(make(Kind::kGpipe, 1, 1, 1), split), "only zero_bubble splits"));
  CHECK(refused(make(Kind::kZeroBubble, 1, 1, 1), [](auto& l) {
          l[0][1] = {Operation::kBackward, 0, 0};
          l[0].erase(l[0].begin() + 2);
        }) == "");
}

TEST_CASE("peaks are those of the table", "[validate]") {
  Schedule eager = make(Kind::kGpipe, 1, 1, 3);
  eager.shape.kind = Kind::kOneForwardOneBackward;
  CHECK(message_of([&] { validate(eager); }) ==
        "invariant: more micro-batches are alive than the table says; pipeline=0 line=5 "
        "instruction=\"forward 1 0\" table=1");
  Schedule lazy = make(Kind::kOneForwardOneBackward, 1, 1, 3);
  lazy.shape.kind = Kind::kGpipe;
  CHECK(message_of([&] { validate(lazy); }) ==
        "invariant: fewer micro-batches are alive than the table says; pipeline=0 line=11 "
        "instruction=step alive=1 table=3");
}

TEST_CASE("reduces", "[validate]") {
  const auto whole = make(Kind::kInterleaved, 2, 2, 2, 0), each = make(Kind::kGpipe, 2, 1, 2, 2);
  CHECK(contains(refused(whole, [](auto& l) { move_before(l[0], "reduce 1 2", "backward 1 2"); }),
                 "once, after its last weight gradient"));
  CHECK(contains(refused(whole, [](auto& l) { drop(l[0], "reduce 1 2"); }),
                 "every stage is reduced"));
  CHECK(refused(whole, [](auto& l) { move_before(l[0], "reduce 1 2", "step"); }) == "");
  CHECK(contains(refused(each, [](auto& l) { move_before(l[0], "reduce 0 0", "backward 0 0"); }),
                 "follows the backward pass it names"));
  CHECK(contains(refused(each, [](auto& l) { move_before(l[0], "reduce 0 0", "reduce 1 0"); }),
                 "reduced before the next one; pipeline=0 line=11 instruction=\"backward 1 0\""));
  CHECK(
      contains(refused(each, [](auto& l) { drop(l[0], "reduce 1 0"); }), "every stage is reduced"));
}

TEST_CASE("gathers and releases", "[validate]") {
  const auto late = make(Kind::kInterleaved, 2, 2, 2, 1), windows = make(Kind::kGpipe, 2, 1, 2, 3);
  CHECK(contains(refused(late, [](auto& l) { move_before(l[0], "gather 2", "gather 0"); }),
                 "gathered once, ascending"));
  CHECK(contains(refused(late, [](auto& l) { l[0].pop_back(); }),
                 "weights of every stage are gathered"));
  CHECK(contains(refused(late, [](auto& l) { move_before(l[0], "gather 0", "step"); }),
                 "only ZeRO 3 gathers before the step"));
  CHECK(contains(refused(windows, [](auto& l) { drop(l[0], "gather 0"); }),
                 "stands between gather and release"));
  CHECK(contains(refused(windows, [](auto& l) { drop(l[0], "release 0"); }),
                 "released before the next gather"));
  CHECK(contains(refused(windows,
                         [](auto& l) {  // one bracket around both forwards
                           drop(l[0], "release 0");
                           l[0].erase(l[0].begin() + 3);
                         }),
                 "stands between gather and release"));
  CHECK(contains(refused(windows, [](auto& l) { move_before(l[0], "release 0", "forward 0 0"); }),
                 "a release follows the use"));
}

TEST_CASE("messages", "[validate]") {
  const Schedule good = make(Kind::kOneForwardOneBackward, 2, 1, 3);
  CHECK(contains(refused(good, [](auto& l) { drop(l[0], "send forward 0 1"); }),
                 "sent before the next one of its direction is made; pipeline=0 line=5"));
  CHECK(contains(refused(good, [](auto& l) { drop(l[1], "receive forward 1 1"); }),
                 "follows the receive of its message"));
  CHECK(contains(
      refused(good, [](auto& l) { l[1][index_of(l[1], "receive forward 1 1")].micro = 2; }),
      "received once, for the next instruction of its stage"));
  CHECK(contains(refused(good,
                         [](auto& l) {
                           l[0][index_of(l[0], "receive backward 0 0")].operation =
                               Operation::kReceiveForward;
                         }),
                 "no activation goes into the first stage"));
  CHECK(contains(refused(good, [](auto& l) { l[1][0].operation = Operation::kReceiveBackward; }),
                 "no gradient goes into the last stage"));
  CHECK(contains(refused(good, [](auto& l) { l[0][1].stage = INT64_MAX; }),
                 "a stage of its coordinate to the next stage"));
  // At p 2 both neighbours are one coordinate: only the key tells the directions apart.
  CHECK(contains(refused(good, [](auto& l) { l[0][1].operation = Operation::kSendBackward; }),
                 "a stage of its coordinate to the next stage"));
  // Waiting for a gradient earlier than need be is allowed.
  CHECK(refused(make(Kind::kGpipe, 3, 1, 2), [](auto& l) {
          move_before(l[2], "send backward 0 1", "receive forward 1 2");
        }).substr(0, 11) == "invariant: ");
}

TEST_CASE("a lane's two ends have one order", "[validate]") {
  // Coordinate 0 runs its last two forwards, of stage 0 and of stage 2, the other way round; each
  // list is good by itself.
  const ScheduleShape shape{Kind::kForwardOnly, 2, 2, 4, 0};
  CHECK(refused(
            make_schedule(shape),
            [](auto& l) {
              for (const char* text : {"receive forward 1 2", "forward 1 2", "send forward 1 3"}) {
                move_before(l[0], text, "forward 3 0");
              }
            }) ==
        "invariant: a lane's messages are received in the order in which they are sent; "
        "pipeline=1 line=33 instruction=\"receive forward 1 3\" sent=\"send forward 2 1\" "
        "source=0");
}

TEST_CASE("instructions that wait for each other", "[validate]") {
  // Both keep two micro-batches alive, as the table says. 0 waits for a gradient before its second
  // forward, 1 for the second activation before its first backward.
  const std::string text =
      "plait-schedule 1\n"
      "kind zero_bubble pipeline 2 chunks 1 microbatches 2 zero 0\n"
      "pipeline 0\n"
      "forward 0 0\nsend forward 0 1\n"
      "receive backward 0 0\nbackward_input 0 0\n"
      "forward 1 0\nsend forward 1 1\n"
      "receive backward 1 0\nbackward_input 1 0\n"
      "backward_weight 0 0\nbackward_weight 1 0\nreduce 1 0\nstep\n"
      "pipeline 1\n"
      "receive forward 0 1\nforward 0 1\n"
      "receive forward 1 1\nforward 1 1\n"
      "backward_input 0 1\nsend backward 0 0\nbackward_input 1 1\nsend backward 1 0\n"
      "backward_weight 0 1\nbackward_weight 1 1\nreduce 1 1\nstep\n";
  CHECK(message_of([&] { parse_schedule(text); }) ==
        "argument: instructions wait for each other; pipeline=0 line=6 "
        "instruction=\"receive backward 0 0\" waits_for=\"receive forward 1 1\" "
        "waits_for_pipeline=1 waits_for_line=19 circle=2");
  std::string commented = text;
  commented.insert(commented.find("pipeline 0\n"), "# a comment\n\n");
  CHECK(contains(message_of([&] { parse_schedule(commented); }), "pipeline=0 line=8 "));
}

TEST_CASE("forward-only lists", "[validate]") {
  const Schedule good = make_forward_schedule({Kind::kGpipe, 2, 1, 2, 0});
  CHECK(refused(good, [](auto&) {}) == "");
  CHECK(contains(refused(good,
                         [](auto& l) {
                           l[0].push_back({Operation::kStep, 0, 0});
                         }),
                 "has no step"));
  CHECK(contains(refused(good,
                         [](auto& l) {
                           l[1].push_back({Operation::kBackward, 0, 1});
                         }),
                 "has no backward pass"));
  CHECK(contains(refused(good,
                         [](auto& l) {
                           l[0].push_back({Operation::kReceiveBackward, 0, 0});
                         }),
                 "has no backward pass"));
  CHECK(contains(refused(good, [](auto& l) { l[0].resize(2); }), "runs forward"));
  CHECK(contains(refused(good,
                         [](auto& l) {
                           l[0].push_back({Operation::kReduce, 1, 0});
                         }),
                 "once, after its last weight gradient"));
}
