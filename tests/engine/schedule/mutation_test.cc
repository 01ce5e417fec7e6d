// Every list with one instruction dropped, doubled, moved or renamed: the validator finds it, in
// the list where it is and not before it.
#include <catch2/catch.hpp>
#include <set>
#include <utility>
#include <vector>

#include "engine/planner/simulate.h"
#include "tests/engine/schedule/schedule_support.h"

using namespace plait;

namespace {

std::vector<ScheduleShape> shapes() {
  using Kind = ScheduleKind;
  std::vector<ScheduleShape> out;
  for (int64_t zero = 0; zero <= 3; ++zero) {
    out.push_back({Kind::kGpipe, 2, 1, 3, zero});
    out.push_back({Kind::kOneForwardOneBackward, 3, 1, 4, zero});
    out.push_back({Kind::kOneForwardOneBackward, 1, 1, 2, zero});
    out.push_back({Kind::kInterleaved, 2, 2, 4, zero});
    out.push_back({Kind::kInterleaved, 3, 2, 3, zero});
    out.push_back({Kind::kForwardOnly, 2, 2, 3, zero});
    if (zero < 2) out.push_back({Kind::kZeroBubble, 3, 1, 4, zero});
  }
  return out;
}

/// Line of an instruction in the schedule's text.
int64_t line_of(const Schedule& schedule, size_t coordinate, size_t index) {
  size_t line = 3;
  for (size_t i = 0; i < coordinate; ++i) line += 1 + schedule.lists[i].size();
  return static_cast<int64_t>(line + 1 + index);
}

/// Changes a copy of the list at every place and gives the error's message, "" where the validator
/// found nothing, to `judge`.
template <class Change, class Judge>
void at_every_place(const Change& change, const Judge& judge) {
  for (const ScheduleShape& shape : shapes()) {
    const Schedule good = make_schedule(shape);
    for (size_t c = 0; c < good.lists.size(); ++c) {
      for (size_t i = 0; i < good.lists[c].size(); ++i) {
        Schedule bad = good;
        if (!change(bad.lists[c], i)) continue;
        const std::string message = message_of([&] { validate(bad); });
        INFO(schedule_kind_name(shape.kind)
             << " zero " << shape.zero << " pipeline " << c << " index " << i << ": "
             << instruction_text(good.lists[c][i]) << ": " << message);
        judge(good, bad, c, i, message);
      }
    }
  }
}

/// The error names the list, and a line that the change may have broken.
void check_place(const Schedule& good, size_t c, size_t i, const std::string& message) {
  REQUIRE(message.substr(0, 11) == "invariant: ");
  REQUIRE(field(message, "pipeline") == static_cast<int64_t>(c));
  const bool is_last = i + 1 == good.lists[c].size();
  REQUIRE(field(message, "line") >= line_of(good, c, i) - (is_last ? 1 : 0));
  REQUIRE(field(message, "line") <= line_of(good, c, good.lists[c].size()));
}

std::ptrdiff_t offset(size_t i) { return static_cast<std::ptrdiff_t>(i); }

}  // namespace

TEST_CASE("a dropped instruction is found", "[mutation]") {
  at_every_place(
      [](InstructionList& list, size_t i) {
        list.erase(list.begin() + offset(i));
        return true;
      },
      [](const Schedule& good, const Schedule&, size_t c, size_t i, const std::string& message) {
        check_place(good, c, i, message);
      });
}

TEST_CASE("a doubled instruction is found where it stands the second time", "[mutation]") {
  for (const bool is_late : {false, true}) {
    at_every_place(
        [&](InstructionList& list, size_t i) {
          const Instruction copy = list[i];
          list.insert(is_late ? list.end() - 1 : list.begin() + offset(i) + 1, copy);
          return true;
        },
        [&](const Schedule& good, const Schedule& bad, size_t c, size_t i,
            const std::string& message) {
          check_place(good, c, i, message);
          if (is_late) return;
          REQUIRE(field(message, "line") == line_of(bad, c, i + 1));
        });
  }
}

TEST_CASE("a renamed micro-batch or stage is found", "[mutation]") {
  for (const int64_t change : {-1, 1, 2}) {
    for (const bool is_micro : {false, true}) {
      at_every_place(
          [&](InstructionList& list, size_t i) {
            (is_micro ? list[i].micro : list[i].stage) += change;
            return true;
          },
          [](const Schedule& good, const Schedule&, size_t c, size_t i,
             const std::string& message) { check_place(good, c, i, message); });
    }
  }
}

TEST_CASE("another operation is found", "[mutation]") {
  for (int other = 0; other <= static_cast<int>(Operation::kStep); ++other) {
    at_every_place(
        [&](InstructionList& list, size_t i) {
          if (list[i].operation == static_cast<Operation>(other)) return false;
          list[i].operation = static_cast<Operation>(other);
          return true;
        },
        [](const Schedule& good, const Schedule&, size_t c, size_t i, const std::string& message) {
          check_place(good, c, i, message);
        });
  }
}

TEST_CASE("neighbours that change places are found where the order matters", "[mutation]") {
  std::set<std::string> free;
  at_every_place(
      [](InstructionList& list, size_t i) {
        if (i + 1 == list.size() || list[i] == list[i + 1]) return false;
        std::swap(list[i], list[i + 1]);
        return true;
      },
      [&](const Schedule& good, const Schedule& bad, size_t c, size_t i,
          const std::string& message) {
        if (!message.empty()) {
          REQUIRE(message.substr(0, 11) == "invariant: ");
          return;
        }
        const auto name = [&](size_t index) {
          const std::string text = instruction_text(good.lists[c][index]);
          return text.substr(0, text.find_first_of("0123456789") - 1);
        };
        free.insert(name(i) + ", " + name(i + 1));
        SimulationPrices prices;
        prices.stages.assign(static_cast<size_t>(bad.shape.pipeline * bad.shape.chunks),
                             {1, 2, 1, 1});
        REQUIRE_NOTHROW(simulate(bad, prices));
      });
  // Where neither makes what the other one uses.
  const std::set<std::string> expected = {"backward, receive forward",
                                          "backward_weight, receive backward",
                                          "backward_weight, receive forward",
                                          "gather, receive backward",
                                          "gather, receive forward",
                                          "reduce, forward",
                                          "reduce, gather",
                                          "reduce, receive backward",
                                          "reduce, receive forward",
                                          "release, reduce",
                                          "send backward, backward_weight",
                                          "send backward, forward",
                                          "send backward, receive backward",
                                          "send backward, receive forward",
                                          "send backward, reduce",
                                          "send backward, release",
                                          "send forward, receive backward",
                                          "send forward, receive forward",
                                          "send forward, release"};
  CHECK(free == expected);
}

TEST_CASE("lists that stand under the wrong coordinate are found", "[mutation]") {
  for (const ScheduleShape& shape : shapes()) {
    if (shape.pipeline == 1) continue;
    Schedule bad = make_schedule(shape);
    std::swap(bad.lists[0], bad.lists[1]);
    CHECK(contains(message_of([&] { validate(bad); }), "pipeline=0 line=4"));
    bad = make_schedule(shape);
    bad.lists.pop_back();
    CHECK(contains(message_of([&] { validate(bad); }), "one list for each"));
    bad = make_schedule(shape);
    bad.lists[1].clear();
    CHECK(contains(message_of([&] { validate(bad); }), "pipeline=1"));
  }
}
