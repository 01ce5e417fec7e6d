// The text form: emitted bytes, what is read back, what is refused.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/engine/schedule/schedule_support.h"

using namespace plait;

namespace {

const std::string kExample =
    "plait-schedule 1\n"
    "kind one_forward_one_backward pipeline 2 chunks 1 microbatches 2 zero 0\n"
    "pipeline 0\n"
    "forward 0 0\n"
    "send forward 0 1\n"
    "forward 1 0\n"
    "send forward 1 1\n"
    "receive backward 0 0\n"
    "backward 0 0\n"
    "receive backward 1 0\n"
    "backward 1 0\n"
    "reduce 1 0\n"
    "step\n"
    "pipeline 1\n"
    "receive forward 0 1\n"
    "forward 0 1\n"
    "backward 0 1\n"
    "send backward 0 0\n"
    "receive forward 1 1\n"
    "forward 1 1\n"
    "backward 1 1\n"
    "send backward 1 0\n"
    "reduce 1 1\n"
    "step\n";

std::string refused(const std::string& text) {
  return message_of([&] { parse_schedule(text); });
}

/// The example with a piece exchanged.
std::string with(const std::string& piece, const std::string& other) {
  std::string text = kExample;
  REQUIRE(contains(text, piece));
  return text.replace(text.find(piece), piece.size(), other);
}

}  // namespace

TEST_CASE("the example of the text form", "[text]") {
  CHECK(schedule_text(make(ScheduleKind::kOneForwardOneBackward, 2, 1, 2)) == kExample);
  CHECK(parse_schedule(kExample) == make(ScheduleKind::kOneForwardOneBackward, 2, 1, 2));
}

TEST_CASE("schedules as text equal their goldens", "[text]") {
  const std::pair<const char*, ScheduleShape> goldens[] = {
      {"gpipe", {ScheduleKind::kGpipe, 2, 1, 3, 2}},
      {"one_forward_one_backward", {ScheduleKind::kOneForwardOneBackward, 4, 1, 5, 1}},
      {"interleaved", {ScheduleKind::kInterleaved, 2, 2, 4, 0}},
      {"interleaved_zero_3", {ScheduleKind::kInterleaved, 2, 2, 4, 3}},
      {"zero_bubble", {ScheduleKind::kZeroBubble, 3, 1, 4, 0}},
      {"forward_only", {ScheduleKind::kForwardOnly, 2, 2, 3, 3}}};
  for (const auto& [name, shape] : goldens) {
    const std::string path = std::string(PLAIT_TESTS_DIR "/goldens/schedules/") + name + ".txt";
    const std::string text = schedule_text(make_schedule(shape));
    if (std::getenv("PLAIT_UPDATE_GOLDENS") != nullptr) std::ofstream(path) << text;
    std::ifstream file(path);
    REQUIRE(file.good());
    std::stringstream golden;
    golden << file.rdbuf();
    CHECK(text == golden.str());
    CHECK(parse_schedule(golden.str()) == make_schedule(shape));
  }
}

TEST_CASE("every text is read back", "[text]") {
  each_shape(4, 8, [](const ScheduleShape& shape) {
    const Schedule schedule = make_schedule(shape);
    const Schedule again = parse_schedule(schedule_text(schedule));
    REQUIRE(again == schedule);
    REQUIRE(schedule_text(again) == schedule_text(schedule));
  });
}

TEST_CASE("comments, empty lines and a missing last line end are read", "[text]") {
  CHECK(parse_schedule("# made by hand\n\n" + kExample) == parse_schedule(kExample));
  CHECK(parse_schedule(with("forward 1 0\n", "   # note\nforward 1 0 # the second\n")) ==
        parse_schedule(kExample));
  CHECK(parse_schedule(kExample.substr(0, kExample.size() - 1)) == parse_schedule(kExample));
}

TEST_CASE("a refused text is an argument and names its line", "[text]") {
  CHECK(refused("") ==
        "argument: a schedule starts with the line plait-schedule 1; line=1 text=\"\"");
  CHECK(refused("plait-schedule 2\n") ==
        "format: a schedule starts with the line plait-schedule 1; line=1 text=\"plait-schedule "
        "2\"");
  CHECK(contains(refused("plait-schedule 1\n"), "line=1"));
  CHECK(contains(refused(with("kind one_forward", "kind two_forward")),
                 "kind of schedule is unknown; line=2"));
  CHECK(contains(refused(with(" chunks 1", "")), "the second line is"));
  CHECK(contains(refused(with("zero 0", "zero 0 0")), "the second line is"));
  CHECK(contains(refused(with("zero 0", "zero 4")), "zero=4 minimum=0 maximum=3 line=2"));
  CHECK(contains(refused(with("microbatches 2", "microbatches 99999999999999999999")), "decimal"));
  CHECK(contains(refused(with("microbatches 2", "microbatches 16777217")), "out of range"));
  CHECK(
      contains(refused(with("microbatches 2", "microbatches 16777216")), "too many instructions"));
  // A header that promises more than the text has costs nothing.
  CHECK(contains(refused(with("microbatches 2", "microbatches 8388608")),
                 "every micro-batch of every stage has its instructions; pipeline=0 line=13"));
  CHECK(contains(refused(with("pipeline 2", "pipeline 3")), "one list for each"));
  CHECK(contains(refused(with("pipeline 0", "pipeline 1")), "line=3"));
  CHECK(contains(refused(with("pipeline 1\n", "pipeline 2\n")), "line=14"));
  CHECK(contains(refused(with("pipeline 0\n", "")), "follow the heading of a list; line=3"));
  CHECK(refused(with("forward 1 0", "forwards 1 0")) ==
        "argument: the instruction is unknown; line=6 text=\"forwards 1 0\"");
  CHECK(contains(refused(with("forward 1 0", "Forward 1 0")), "unknown; line=6"));
  CHECK(contains(refused(with("forward 1 0", " forward 1 0")), "unknown; line=6"));
  CHECK(contains(refused(with("forward 1 0", "forward  1 0")), "decimal, without sign; line=6"));
  CHECK(contains(refused(with("forward 1 0", "forward 1")), "lacks a number; line=6"));
  CHECK(contains(refused(with("forward 1 0", "forward 1 0 0")), "followed by something else"));
  CHECK(contains(refused(with("forward 1 0", "forward 01 0")), "decimal, without sign; line=6"));
  CHECK(contains(refused(with("forward 1 0", "forward -1 0")), "decimal, without sign; line=6"));
  CHECK(contains(refused(with("forward 1 0", "forward +1 0")), "decimal, without sign; line=6"));
  CHECK(contains(refused(with("forward 1 0", "forward 1 0\r")), "line=6 text=\"forward 1 0?\""));
  CHECK(contains(refused(with("step\n", "step 0\n")), "followed by something else; line=13"));
  CHECK(contains(refused(with("reduce 1 0", "gather 0 0")), "followed by something else; line=12"));
  CHECK(contains(refused(with("forward 1 0\n", std::string(1 << 20, 'x') + "\n")), "line=6"));
  CHECK(refused(with("forward 1 0\n", std::string(1 << 20, 'x') + "\n")).size() < 200);
}

TEST_CASE("a text that is no valid schedule names the line of its instruction", "[text]") {
  CHECK(refused(with("forward 1 0", "# a comment\n\nforward 0 0")) ==
        "argument: a stage runs forward once for each micro-batch, ascending; pipeline=0 line=8 "
        "instruction=\"forward 0 0\"");
  CHECK(contains(refused(with("receive forward 1 1\n", "")),
                 "pipeline=1 line=19 instruction=\"forward 1 1\""));
  CHECK(contains(refused(kExample.substr(0, kExample.rfind("step"))), "line=23 instruction=\"\""));
}
