// Schedules in virtual time against the closed formulas of their kinds.
#include "engine/planner/simulate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "kernels/base/error.h"

using namespace plait;

namespace {

/// Seconds of one micro-batch through all chunks of a coordinate. All are integers, so sums and
/// thereby the comparisons below are exact.
struct Times {
  double forward, input, weight;
  double whole() const { return forward + input + weight; }
};

/// Equal stages of which `shape.chunks` make a coordinate.
SimulationPrices equal_prices(const ScheduleShape& shape, const Times& times) {
  const auto v = static_cast<double>(shape.chunks);
  SimulationPrices prices;
  prices.stages.assign(
      static_cast<size_t>(shape.pipeline * shape.chunks),
      {times.forward / v, (times.input + times.weight) / v, times.input / v, times.weight / v});
  return prices;
}

/// Idle seconds of a coordinate by the formula of the kind.
double bubble_of(const ScheduleShape& shape, const Times& t) {
  const auto others = static_cast<double>(shape.pipeline - 1);
  if (shape.kind == ScheduleKind::kZeroBubble) {
    return others * std::max({t.forward, t.input, t.forward + t.input - t.weight});
  }
  return others * t.whole() / static_cast<double>(shape.chunks);
}

constexpr ScheduleKind kOneChunk[] = {ScheduleKind::kGpipe, ScheduleKind::kOneForwardOneBackward,
                                      ScheduleKind::kZeroBubble};

/// Every shape that a kind admits with p ≤ 8, v ≤ 4, m ≤ 32.
template <class Visit>
void each_shape(const Visit& visit) {
  for (int64_t p = 1; p <= 8; ++p) {
    for (int64_t m = 1; m <= 32; ++m) {
      for (const ScheduleKind kind : kOneChunk) visit(ScheduleShape{kind, p, 1, m, 0});
      for (int64_t v = 2; v <= 4; ++v) {
        if (p == 1 || m % p != 0) continue;
        visit(ScheduleShape{ScheduleKind::kInterleaved, p, v, m, 0});
      }
    }
  }
}

/// Equal stages, all chunks of a coordinate together: forward 12 seconds, backward 24.
Simulation run(const Schedule& schedule) {
  return simulate(schedule, equal_prices(schedule.shape, {12, 12, 12}));
}

/// p 4, m 4, all weight parts at the end, so that every coordinate keeps 4 micro-batches alive as
/// the table says; coordinate 0 runs all forwards first, the others one forward, one backward.
/// Coordinate 0's fourth send waits until 1 receives the third message, which comes after 1's
/// second send, which waits until 0 receives the first gradient.
Schedule lane_deadlock() {
  Schedule schedule = make_schedule({ScheduleKind::kZeroBubble, 4, 1, 4, 0});
  for (int64_t c = 0; c < 4; ++c) {
    InstructionList list;
    const auto add_forward = [&](int64_t micro) {
      if (c > 0) list.push_back({Operation::kReceiveForward, micro, c});
      list.push_back({Operation::kForward, micro, c});
      if (c < 3) list.push_back({Operation::kSendForward, micro, c + 1});
    };
    const auto add_input = [&](int64_t micro) {
      if (c < 3) list.push_back({Operation::kReceiveBackward, micro, c});
      list.push_back({Operation::kBackwardInput, micro, c});
      if (c > 0) list.push_back({Operation::kSendBackward, micro, c - 1});
    };
    for (int64_t micro = 0; micro < 4; ++micro) {
      add_forward(micro);
      if (c > 0) add_input(micro);
    }
    for (int64_t micro = 0; c == 0 && micro < 4; ++micro) add_input(micro);
    for (int64_t micro = 0; micro < 4; ++micro) {
      list.push_back({Operation::kBackwardWeight, micro, c});
    }
    list.push_back({Operation::kReduce, 3, c});
    list.push_back({Operation::kStep, 0, 0});
    schedule.lists[static_cast<size_t>(c)] = list;
  }
  return schedule;
}

}  // namespace

TEST_CASE("the bubble of every admitted shape is that of the formula", "[simulate]") {
  // Multiples of 12, so that a share of 2, 3 or 4 chunks is an integer.
  const Times all_times[] = {{12, 12, 12}, {24, 36, 12}, {36, 12, 24},
                             {12, 24, 36}, {60, 12, 12}, {12, 60, 24}};
  int64_t shapes = 0;
  each_shape([&](const ScheduleShape& shape) {
    const Schedule schedule = make_schedule(shape);
    const bool has_formula =
        shape.kind != ScheduleKind::kZeroBubble || shape.micro_batches >= shape.pipeline;
    ++shapes;
    for (const Times& times : all_times) {
      const Simulation simulation = simulate(schedule, equal_prices(shape, times));
      const double work = static_cast<double>(shape.micro_batches) * times.whole();
      for (const CoordinateTimes& coordinate : simulation.coordinates) {
        REQUIRE(coordinate.busy == work);
      }
      if (!has_formula) continue;
      REQUIRE(simulation.makespan - work == bubble_of(shape, times));
      const double share = bubble_of(shape, times) / work;
      REQUIRE(simulation.idle_share == Approx(share / (1 + share)).margin(1e-12));
    }
  });
  CHECK(shapes == 8 * 32 * 3 + 3 * (16 + 10 + 8 + 6 + 5 + 4 + 4));
}

TEST_CASE("P6, trap 25: every admitted shape runs with every ZeRO stage, and forward alone",
          "[simulate]") {
  each_shape([&](ScheduleShape shape) {
    if (shape.micro_batches > 8) return;
    const double plain = run(make_schedule(shape)).makespan;
    for (shape.zero = 1; shape.zero <= 3; ++shape.zero) {
      if (shape.kind == ScheduleKind::kZeroBubble && shape.zero >= 2) continue;
      REQUIRE(run(make_schedule(shape)).makespan == plain);
    }
  });
  for (int64_t p = 2; p <= 8; ++p) {
    for (int64_t v = 1; v <= 4; ++v) {
      for (int64_t m = 1; m <= 32; ++m) {
        ScheduleShape shape{ScheduleKind::kInterleaved, p, v, m, 3};
        const Simulation simulation = run(make_forward_schedule(shape));
        // Whole groups: the first micro-batch reaches the last coordinate, then all go on.
        if (m % p != 0) continue;
        const auto chunk = 12 / static_cast<double>(v);
        REQUIRE(simulation.makespan == 12 * static_cast<double>(m) + chunk * double(p - 1));
      }
    }
  }
}

TEST_CASE("P11: idle shares of whole pipelines", "[simulate]") {
  const auto share = [](ScheduleKind kind, int64_t p, int64_t v, int64_t m) {
    return run(make_schedule({kind, p, v, m, 0})).idle_share;
  };
  CHECK(share(ScheduleKind::kOneForwardOneBackward, 2, 1, 8) == Approx(1.0 / 9));
  CHECK(share(ScheduleKind::kOneForwardOneBackward, 4, 1, 8) == Approx(3.0 / 11));
  CHECK(share(ScheduleKind::kInterleaved, 2, 2, 8) == Approx(0.5 / 8.5));
  CHECK(share(ScheduleKind::kZeroBubble, 4, 1, 8) == Approx(1.0 / 9));
  CHECK(share(ScheduleKind::kGpipe, 1, 1, 3) == 0);
}

TEST_CASE("a message takes its time, and computing does not wait for it", "[simulate]") {
  const Schedule schedule = make_schedule({ScheduleKind::kGpipe, 2, 1, 2, 0});
  SimulationPrices prices = equal_prices(schedule.shape, {3, 5, 0});
  prices.hops = {{10, 0}, {0, 10}};
  const Simulation simulation = simulate(schedule, prices);
  // 0: F 0–3, send; F 3–6, its send waits until 13 for the receipt of the first message, which
  // arrives then. 1: F 13–16, receives at 23, F 23–26, B 26–31, B 31–36 with a send at 31 and one
  // that waits until 41 for the receipt. 0: B 41–46, B 51–56.
  const auto& first = simulation.coordinates[0].instructions;
  REQUIRE(instruction_text(schedule.lists[0][3]) == "send forward 1 1");
  CHECK(first[2].begin == 3);
  CHECK(first[2].end == 6);
  CHECK(first[3].end == 13);
  const auto& second = simulation.coordinates[1].instructions;
  REQUIRE(instruction_text(schedule.lists[1][3]) == "forward 1 1");
  CHECK(second[3].begin == 23);
  CHECK(second[3].end == 26);
  CHECK(simulation.makespan == 56);
  CHECK(simulation.coordinates[0].busy == 16);
  CHECK(simulation.idle_share == Approx(1 - 32.0 / 112));
}

TEST_CASE("a full lane holds the sender until the message before is received", "[simulate]") {
  const Schedule schedule = make_schedule({ScheduleKind::kGpipe, 2, 1, 5, 0});
  SimulationPrices prices;
  prices.stages = {{1, 1, 0, 0}, {10, 10, 0, 0}};
  const Simulation simulation = simulate(schedule, prices);
  const auto begin_of_forward = [&](size_t micro) {
    REQUIRE(schedule.lists[0][2 * micro] == Instruction{Operation::kForward, int64_t(micro), 0});
    return simulation.coordinates[0].instructions[2 * micro].begin;
  };
  CHECK(begin_of_forward(1) == 1);
  CHECK(begin_of_forward(2) == 2);   // message 0 was received at 1
  CHECK(begin_of_forward(3) == 11);  // message 1 at 11
  CHECK(begin_of_forward(4) == 21);
}

TEST_CASE("stages of different length: the longest sets the pace", "[simulate]") {
  const Schedule schedule = make_schedule({ScheduleKind::kOneForwardOneBackward, 3, 1, 6, 0});
  SimulationPrices prices;
  prices.stages = {{1, 2, 0, 0}, {2, 4, 0, 0}, {1, 2, 0, 0}};
  const Simulation simulation = simulate(schedule, prices);
  // The first forward before the middle, its 36 seconds, one second in which it waits for the first
  // gradient (its second forward ends at 5, the last stage's backward at 6), the last backward.
  CHECK(simulation.makespan == 1 + 36 + 1 + 2);
  CHECK(simulation.coordinates[1].busy == 36);
  CHECK(simulation.coordinates[0].busy == 18);
}

TEST_CASE("instructions that wait for each other are an error", "[simulate]") {
  // The lanes alone make the circle: the validator finds nothing else in these lists.
  const auto message_of = [](const auto& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  const char* expected =
      "invariant: instructions wait for each other; pipeline=0 line=11 "
      "instruction=\"send forward 3 1\" waits_for=\"send backward 1 0\" waits_for_pipeline=1 "
      "waits_for_line=38 circle=2";
  CHECK(message_of([] { run(lane_deadlock()); }) == expected);
  CHECK(message_of([] { validate(lane_deadlock()); }) == expected);
  // A message that nobody sends.
  Schedule schedule = make_schedule({ScheduleKind::kGpipe, 2, 1, 1, 0});
  schedule.lists[0].erase(schedule.lists[0].begin() + 1);
  CHECK_THROWS_AS(run(schedule), Error);
}

TEST_CASE("prices of other stages are refused", "[simulate]") {
  CHECK_THROWS_AS(simulate(make_schedule({ScheduleKind::kGpipe, 2, 1, 1, 0}), {}), Error);
}
