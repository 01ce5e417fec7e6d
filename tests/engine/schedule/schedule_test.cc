// Lists against the published tables, and what the validator refuses.
#include "engine/schedule/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "kernels/base/error.h"

using namespace plait;

namespace {

/// "F0.0 B0.2 …" of the compute instructions of a list.
std::string short_text(const std::vector<Instruction>& list, bool has_stage) {
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

Schedule make(ScheduleKind kind, int64_t p, int64_t v, int64_t m) {
  return make_schedule({kind, p, v, m, 0});
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

TEST_CASE("one list as text", "[schedule]") {
  CHECK(schedule_text(make(ScheduleKind::kOneForwardOneBackward, 1, 1, 2)) ==
        "plait-schedule 1\n"
        "kind one_forward_one_backward pipeline 1 chunks 1 microbatches 2 zero 0\n"
        "pipeline 0\nforward 0 0\nbackward 0 0\nforward 1 0\nbackward 1 0\nreduce 1 0\nstep\n");
}

TEST_CASE("every admitted shape is valid and keeps as many micro-batches alive as the table says",
          "[schedule]") {
  for (int64_t p = 1; p <= 8; ++p) {
    for (int64_t m = 1; m <= 32; ++m) {
      for (int64_t i = 0; i < p; ++i) {
        const auto list = [&](ScheduleKind kind) {
          return make(kind, p, 1, m).lists[static_cast<size_t>(i)];
        };
        REQUIRE(peak_alive(list(ScheduleKind::kGpipe)) == m);
        REQUIRE(peak_alive(list(ScheduleKind::kOneForwardOneBackward)) == std::min(m, p - i));
        REQUIRE(peak_alive(list(ScheduleKind::kZeroBubble)) == std::min(m, p));
      }
      for (int64_t v = 2; v <= 4; ++v) {
        if (p > 1 && m % p == 0) REQUIRE_NOTHROW(make(ScheduleKind::kInterleaved, p, v, m));
      }
    }
  }
}

TEST_CASE("shapes that a kind does not admit name their numbers", "[schedule]") {
  try {
    make(ScheduleKind::kInterleaved, 4, 2, 10);
    FAIL("made");
  } catch (const Error& error) {
    CHECK(error.word() == "argument");
    CHECK(error.message().find("above=12 below=8") != std::string::npos);
  }
  CHECK_THROWS_AS(make(ScheduleKind::kGpipe, 2, 2, 4), Error);
}

TEST_CASE("the validator names the first violation", "[schedule]") {
  const Schedule good = make(ScheduleKind::kOneForwardOneBackward, 2, 1, 3);
  const auto refused = [&](auto&& change) {
    Schedule bad = good;
    change(bad.lists[0]);
    try {
      validate(bad);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("accepted");
  };
  CHECK(refused([](auto&) {}) == "accepted");
  CHECK(refused([](auto& l) { std::swap(l[0], l[2]); }).find("ascending") != std::string::npos);
  CHECK(refused([](auto& l) { l.erase(l.begin() + 3); }) != "accepted");
  CHECK(refused([](auto& l) { l.pop_back(); }).find("step") != std::string::npos);
  CHECK(refused([](auto& l) {
          l.insert(l.begin(), Instruction{Operation::kBackward, 0, 0});
        }).find("line=4 instruction=\"backward 0 0\"") != std::string::npos);
  CHECK(refused([](auto& l) { l[0].stage = 1; }).find("coordinate") != std::string::npos);
  CHECK(refused([](auto& l) { l.insert(l.end() - 1, l[l.size() - 2]); }) != "accepted");
}
