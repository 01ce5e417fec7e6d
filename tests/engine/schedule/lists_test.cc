// Compute lists and living micro-batches against the published tables; shapes that are refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "tests/engine/schedule/schedule_support.h"

using namespace plait;

namespace {

/// "F0.0 B0.2 …" of the compute instructions of a list.
std::string short_text(const InstructionList& list, bool has_stage) {
  std::ostringstream out;
  const char* letters = "FBIW";
  for (const Instruction& i : list) {
    if (static_cast<size_t>(i.operation) >= 4) continue;
    if (out.tellp() > 0) out << ' ';
    out << letters[static_cast<int>(i.operation)] << i.micro;
    if (has_stage) out << '.' << i.stage;
  }
  return out.str();
}

/// Most (micro, stage) alive at once, counted with a set of the living.
int64_t most_alive(const InstructionList& list) {
  std::set<std::pair<int64_t, int64_t>> alive;
  size_t most = 0;
  for (const Instruction& i : list) {
    if (i.operation == Operation::kForward) alive.insert({i.micro, i.stage});
    if (i.operation == Operation::kBackward || i.operation == Operation::kBackwardWeight) {
      alive.erase({i.micro, i.stage});
    }
    most = std::max(most, alive.size());
  }
  return static_cast<int64_t>(most);
}

}  // namespace

TEST_CASE("the interleaved lists of p 2, v 2, m 4", "[schedule]") {
  const Schedule schedule = make(ScheduleKind::kInterleaved, 2, 2, 4);
  CHECK(short_text(schedule.lists[0], true) ==
        "F0.0 F1.0 F0.2 F1.2 F2.0 B0.2 F3.0 B1.2 F2.2 B0.0 F3.2 B1.0 B2.2 B3.2 B2.0 B3.0");
  CHECK(short_text(schedule.lists[1], true) ==
        "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 F2.1 B0.1 F3.1 B1.1 F2.3 B2.3 F3.3 B3.3 B2.1 B3.1");
}

TEST_CASE("the zero-bubble lists of p 3, m 4", "[schedule]") {
  const Schedule schedule = make(ScheduleKind::kZeroBubble, 3, 1, 4);
  CHECK(short_text(schedule.lists[0], false) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  CHECK(short_text(schedule.lists[1], false) == "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  CHECK(short_text(schedule.lists[2], false) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

TEST_CASE("forward-only lists follow the order table, the last group short", "[schedule]") {
  const Schedule schedule = make_forward_schedule({ScheduleKind::kInterleaved, 2, 2, 3, 0});
  CHECK(short_text(schedule.lists[0], true) == "F0.0 F1.0 F0.2 F1.2 F2.0 F2.2");
  CHECK(short_text(schedule.lists[1], true) == "F0.1 F1.1 F0.3 F1.3 F2.1 F2.3");
  // Of whatever kind the shape is that the step has.
  const ScheduleShape split{ScheduleKind::kZeroBubble, 3, 1, 4, 0};
  CHECK(short_text(make_forward_schedule(split).lists[1], false) == "F0 F1 F2 F3");
  CHECK(make_forward_schedule(split).shape.kind == ScheduleKind::kForwardOnly);
}

TEST_CASE(
    "P6, trap 25: every admitted shape is valid and keeps as many micro-batches alive as the table "
    "says",
    "[schedule]") {
  for (int64_t p = 1; p <= 8; ++p) {
    for (int64_t m = 1; m <= 32; ++m) {
      const auto check_lists = [&](ScheduleKind kind, int64_t v, auto&& expected) {
        const Schedule schedule = make(kind, p, v, m);
        for (int64_t i = 0; i < p; ++i) {
          const InstructionList& list = schedule.lists[static_cast<size_t>(i)];
          REQUIRE(most_alive(list) == expected(i));
          REQUIRE(peak_of_table(schedule.shape, i) == expected(i));
          if (v == 1) REQUIRE(peak_alive(list) == expected(i));
          for (int64_t chunk = 0; chunk < v; ++chunk) {
            REQUIRE(peak_of_table(schedule.shape, i, chunk) == peak_alive(list, chunk * p + i));
          }
        }
      };
      check_lists(ScheduleKind::kGpipe, 1, [&](int64_t) { return m; });
      check_lists(ScheduleKind::kOneForwardOneBackward, 1,
                  [&](int64_t i) { return std::min(m, p - i); });
      check_lists(ScheduleKind::kZeroBubble, 1, [&](int64_t) { return std::min(m, p); });
      for (int64_t v = 2; v <= 4; ++v) {
        if (p == 1 || m % p != 0) continue;
        check_lists(ScheduleKind::kInterleaved, v,
                    [&](int64_t i) { return std::min(m * v, 2 * (p - 1 - i) + (v - 1) * p + 1); });
      }
    }
  }
}

TEST_CASE("every admitted shape is valid in every ZeRO stage, and forward alone", "[schedule]") {
  int64_t shapes = 0;
  each_shape(8, 32, [&](const ScheduleShape& shape) {
    REQUIRE_NOTHROW(make_schedule(shape));
    ++shapes;
  });
  CHECK(shapes > 8 * 32 * 14);
  // Larger than any list of today's clusters.
  REQUIRE_NOTHROW(make(ScheduleKind::kInterleaved, 64, 2, 512, 3));
}

TEST_CASE("living micro-batches of one stage", "[schedule]") {
  const InstructionList list = make(ScheduleKind::kInterleaved, 2, 2, 4).lists[0];
  // F0.0 F1.0 F0.2 F1.2 F2.0 B0.2 F3.0 B1.2 F2.2 B0.0 …: stage 0 keeps 4, stage 2 at most 2.
  CHECK(peak_alive(list, 0) == 4);
  CHECK(peak_alive(list, 2) == 2);
  CHECK(peak_alive(list, 1) == 0);
  CHECK(peak_alive(list) == 4);
  each_shape(4, 8, [](const ScheduleShape& shape) {
    if (shape.kind == ScheduleKind::kForwardOnly) return;
    const Schedule schedule = make_schedule(shape);
    for (int64_t i = 0; i < shape.pipeline; ++i) {
      const InstructionList& of = schedule.lists[static_cast<size_t>(i)];
      int64_t most = 0, sum = 0;
      for (int64_t stage = i; stage < shape.pipeline * shape.chunks; stage += shape.pipeline) {
        most = std::max(most, peak_alive(of, stage));
        sum += peak_alive(of, stage);
      }
      REQUIRE(peak_alive(of) == most);
      REQUIRE(sum >= most_alive(of));
    }
  });
}

TEST_CASE("shapes that a kind does not admit name their numbers", "[schedule]") {
  const auto refused = [](ScheduleKind kind, int64_t p, int64_t v, int64_t m, int64_t zero) {
    const std::string message = message_of([&] { make(kind, p, v, m, zero); });
    CHECK(message.substr(0, 10) == "argument: ");
    return message;
  };
  CHECK(contains(refused(ScheduleKind::kInterleaved, 4, 2, 10, 0),
                 "micro_batches=10 pipeline=4 above=12 below=8"));
  CHECK(contains(refused(ScheduleKind::kInterleaved, 4, 2, 3, 0),
                 "micro_batches=3 pipeline=4 above=4"));
  CHECK_FALSE(contains(refused(ScheduleKind::kInterleaved, 4, 2, 3, 0), "below"));
  CHECK(contains(refused(ScheduleKind::kInterleaved, 4, 1, 8, 0), "chunks=1"));
  CHECK(contains(refused(ScheduleKind::kInterleaved, 1, 2, 8, 0), "chunks=2 pipeline=1"));
  CHECK(contains(refused(ScheduleKind::kForwardOnly, 1, 2, 8, 0), "chunks=2 pipeline=1"));
  for (const ScheduleKind kind :
       {ScheduleKind::kGpipe, ScheduleKind::kOneForwardOneBackward, ScheduleKind::kZeroBubble}) {
    CHECK(contains(refused(kind, 2, 2, 4, 0), std::string("value=") + schedule_kind_name(kind)));
  }
  CHECK(contains(refused(ScheduleKind::kZeroBubble, 2, 1, 4, 2), "key=layout.zero zero=2"));
  CHECK(contains(refused(ScheduleKind::kZeroBubble, 2, 1, 4, 3), "key=layout.zero zero=3"));
  CHECK(contains(refused(ScheduleKind::kGpipe, 2, 1, 4, 4), "zero=4 minimum=0 maximum=3"));
  CHECK(contains(refused(ScheduleKind::kGpipe, 0, 1, 4, 0), "pipeline=0 minimum=1"));
  CHECK(contains(refused(ScheduleKind::kGpipe, 2, 1, 0, 0), "micro_batches=0 minimum=1"));
  CHECK(
      contains(refused(ScheduleKind::kGpipe, INT64_MAX, 1, 2, 0), "pipeline=9223372036854775807"));
  CHECK(contains(refused(ScheduleKind::kInterleaved, 1 << 20, 1 << 20, 1 << 20, 0), "limit="));
}
