// Schedules in virtual time against the closed formulas of their kinds.
#include "engine/planner/simulate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

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
      SimulationPrices prices = equal_prices(shape, times);
      prices.keeps_times = false;
      prices.lane_depth = 3;
      REQUIRE(simulate(schedule, prices).makespan == simulation.makespan);
      prices.is_blocking = true;
      REQUIRE(simulate(schedule, prices).makespan == simulation.makespan);
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

namespace {

/// The latest end of a step's instructions as a longest path: what each waits for, relaxed until
/// nothing moves.
class LongestPath {
 public:
  LongestPath(const Schedule& schedule, const SimulationPrices& prices)
      : schedule_(schedule), prices_(prices) {
    for (const InstructionList& list : schedule.lists) ends_.emplace_back(list.size(), 0.0);
  }

  double seconds() {
    while (relax()) continue;
    double last = 0;
    for (const std::vector<double>& ends : ends_) last = std::max(last, ends.back());
    return last;
  }

 private:
  struct Message {
    double sent = 0, arrived = 0, taken = 0;
  };

  static bool is_sent(Operation operation) {
    return operation == Operation::kSendForward || operation == Operation::kSendBackward;
  }
  static bool is_forward(Operation operation) {
    return operation == Operation::kSendForward || operation == Operation::kReceiveForward;
  }

  double price(const Instruction& i) const {
    const StagePrice& price = prices_.stages[size_t(i.stage)];
    if (i.operation == Operation::kForward) return price.forward;
    if (i.operation == Operation::kBackward) return price.backward;
    if (i.operation == Operation::kBackwardInput) return price.backward_input;
    return i.operation == Operation::kBackwardWeight ? price.backward_weight : 0;
  }
  double hop(const Instruction& message) const {
    return is_forward(message.operation) ? prices_.hops[size_t(message.stage - 1)].forward
                                         : prices_.hops[size_t(message.stage + 1)].backward;
  }

  bool relax() {
    bool has_moved = false;
    for (size_t c = 0; c < ends_.size(); ++c) {
      // Messages of a lane, in the order of its two ends.
      std::map<std::tuple<bool, int64_t>, size_t> numbers;
      double now = 0;
      for (size_t i = 0; i < ends_[c].size(); ++i) {
        const Instruction& instruction = schedule_.lists[c][i];
        now += price(instruction);
        if (is_sent(instruction.operation) || instruction.operation == Operation::kReceiveForward ||
            instruction.operation == Operation::kReceiveBackward) {
          const int64_t source = message_source(instruction, schedule_.shape.pipeline);
          auto& lane = lanes_[{is_forward(instruction.operation), source}];
          const bool sends = is_sent(instruction.operation);
          const size_t number = numbers[{sends, source * 2 + is_forward(instruction.operation)}]++;
          if (lane.size() <= number) lane.resize(number + 1);
          now = message(&lane, number, instruction, sends, now);
        }
        has_moved = has_moved || now > ends_[c][i];
        ends_[c][i] = now;
      }
    }
    return has_moved;
  }

  double message(std::vector<Message>* lane, size_t number, const Instruction& instruction,
                 bool sends, double now) const {
    Message& own = (*lane)[number];
    if (!sends) return own.taken = std::max(now, own.arrived);
    const auto depth = size_t(prices_.lane_depth);
    if (!prices_.is_blocking && number >= depth) now = std::max(now, (*lane)[number - depth].taken);
    own.sent = now;
    const double before = number > 0 ? (*lane)[number - 1].arrived : 0;
    own.arrived = std::max(now, before) + hop(instruction);
    return prices_.is_blocking ? own.arrived : now;
  }

  const Schedule& schedule_;
  const SimulationPrices& prices_;
  std::vector<std::vector<double>> ends_;
  std::map<std::tuple<bool, int64_t>, std::vector<Message>> lanes_;
};

}  // namespace

TEST_CASE("with hops and stages of any length a step is the longest path through its graph",
          "[simulate]") {
  std::mt19937_64 random(7);
  const auto seconds = [&](int64_t most) { return double(random() % uint64_t(most + 1)); };
  int cases = 0;
  each_shape([&](const ScheduleShape& shape) {
    if (shape.pipeline == 1 || shape.micro_batches > 12 || shape.pipeline > 5) return;
    const Schedule schedule = make_schedule(shape);
    const auto stages = size_t(shape.pipeline * shape.chunks);
    SimulationPrices prices;
    for (size_t stage = 0; stage < stages; ++stage) {
      const double input = 1 + seconds(9), weight = 1 + seconds(9);
      prices.stages.push_back({1 + seconds(9), input + weight, input, weight});
      prices.hops.push_back({seconds(6), seconds(6)});
    }
    for (const int64_t depth : {1, 2, 4}) {
      prices.lane_depth = depth;
      prices.is_blocking = false;
      REQUIRE(simulate(schedule, prices).makespan == LongestPath(schedule, prices).seconds());
      ++cases;
    }
    prices.is_blocking = true;
    const Simulation one = simulate(schedule, prices), other = simulate(schedule, prices);
    REQUIRE(one.makespan == LongestPath(schedule, prices).seconds());
    REQUIRE(other.makespan == one.makespan);
    REQUIRE(other.idle_share == one.idle_share);
    for (StagePrice& price : prices.stages) {
      price = {4 * price.forward, 4 * price.backward, 4 * price.backward_input,
               4 * price.backward_weight};
    }
    for (StageHops& hop : prices.hops) hop = {4 * hop.forward, 4 * hop.backward};
    REQUIRE(simulate(schedule, prices).makespan == 4 * one.makespan);
  });
  CHECK(cases > 500);
}

TEST_CASE("a hop lengthens 1F1B by its trips through an empty pipeline", "[simulate]") {
  // On lanes, a hop shorter than a pass: the first micro-batch's way down and the last one's way
  // up.
  const Schedule schedule = make_schedule({ScheduleKind::kOneForwardOneBackward, 4, 1, 16, 0});
  SimulationPrices prices = equal_prices(schedule.shape, {10, 20, 0});
  const double plain = simulate(schedule, prices).makespan;
  prices.hops.assign(4, {1, 1});
  CHECK(simulate(schedule, prices).makespan > plain + 2 * 3 * 1 - 1);
  // Where sends block, a rank in the middle also waits for its own two hops of each micro-batch.
  const double lanes = simulate(schedule, prices).makespan;
  prices.is_blocking = true;
  CHECK(simulate(schedule, prices).makespan >= plain + 2 * 16);
  CHECK(simulate(schedule, prices).makespan > lanes);
}

TEST_CASE("reductions: in the list, after the passes, beside them", "[simulate]") {
  const Schedule schedule = make_schedule({ScheduleKind::kInterleaved, 2, 2, 2, 0});
  SimulationPrices prices;
  prices.stages.assign(4, {4, 8, 0, 0});
  const double passes = simulate(schedule, prices).makespan;
  prices.data.assign(4, {0, 0, 3, 0});
  prices.reduce_place = ReducePlace::kAfterPasses;
  Simulation times = simulate(schedule, prices);
  CHECK(times.passes_end == passes);
  CHECK(times.step_begin == passes + 6);
  prices.reduce_place = ReducePlace::kInList;
  times = simulate(schedule, prices);
  CHECK(times.step_begin >= passes + 6);
  prices.reduce_place = ReducePlace::kInsidePass;
  times = simulate(schedule, prices);
  CHECK(times.passes_end == passes);
  // The last reduction begins with the last backward, 8 seconds before the end; the one before it
  // with the last backward of the other chunk, two passes earlier.
  const double last = passes - 8 + overlapped_seconds(3, 8, 3);
  const double both = passes - 24 + overlapped_seconds(6, 24, 3);
  CHECK(times.step_begin == Approx(std::max(last, both)));
  prices.step_seconds = 5;
  CHECK(simulate(schedule, prices).makespan == Approx(times.step_begin + 5));
}

TEST_CASE("weights and gradients of ZeRO 2 and 3 are part of the passes", "[simulate]") {
  SimulationPrices prices;
  prices.stages.assign(2, {4, 8, 0, 0});
  prices.data.assign(2, {1, 2, 3, 5});
  prices.reduce_place = ReducePlace::kInsidePass;
  const auto busy = [&](int64_t zero) {
    const Schedule schedule = make_schedule({ScheduleKind::kOneForwardOneBackward, 2, 1, 3, zero});
    return simulate(schedule, prices).coordinates[1].busy;
  };
  const double beside = overlapped_seconds(8, 3, 3);
  CHECK(busy(1) == 3 * 12);
  CHECK(busy(2) == Approx(3 * (4 + beside)));
  CHECK(busy(3) == Approx(3 * (4 + 1 + beside + 2)));
  prices.gathers_ahead = true;
  CHECK(busy(3) == Approx(3 * (overlapped_seconds(4, 1, 3) + overlapped_seconds(8, 5, 3))));
  prices.gathers_ahead = false;
  prices.reduce_place = ReducePlace::kInList;
  CHECK(busy(3) == Approx(3 * (4 + 1 + 8 + 2 + 3)));
  // ZeRO 1 and 2 gather after the step.
  const Simulation after =
      simulate(make_schedule({ScheduleKind::kOneForwardOneBackward, 2, 1, 3, 1}), prices);
  CHECK(after.makespan == after.step_begin + 5);
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
