// The idle meter on events whose times are known: those of simulated schedules.
#include "engine/trainer/idle_meter.h"

#include <catch2/catch.hpp>

namespace plait::test {
namespace {

constexpr int64_t kUnit = 1000;  // ns of a price of 1e-6 s

/// What each coordinate would have recorded, `start` ns after the clock's zero.
std::vector<std::vector<TraceEvent>> events_of(const Schedule& schedule,
                                               const Simulation& simulation, int64_t start) {
  std::vector<std::vector<TraceEvent>> events;
  for (size_t c = 0; c < schedule.lists.size(); ++c) {
    events.emplace_back();
    for (size_t i = 0; i < schedule.lists[c].size(); ++i) {
      const InstructionTime& time = simulation.coordinates[c].instructions[i];
      events.back().push_back({schedule.lists[c][i], 1,
                               start + static_cast<int64_t>(time.begin * 1e9 + 0.5),
                               start + static_cast<int64_t>(time.end * 1e9 + 0.5)});
    }
  }
  return events;
}

SimulationPrices prices_of(int64_t stages, double slowest) {
  SimulationPrices prices;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const double factor = stage + 1 == stages ? slowest : 1;
    prices.stages.push_back({1e-6 * factor, 2e-6 * factor, 1e-6 * factor, 1e-6 * factor});
  }
  return prices;
}

IdleMeter measure(const Schedule& schedule, const SimulationPrices& prices, int parts) {
  const int64_t p = schedule.shape.pipeline;
  IdleMeter meter(p, p * schedule.shape.chunks);
  const Simulation simulation = simulate(schedule, prices);
  for (int part = 0; part < parts; ++part) {
    const auto events = events_of(schedule, simulation, 1'000'000 * part);
    for (int64_t c = 0; c < p; ++c) meter.add(c, events[static_cast<size_t>(c)]);
    meter.end_part();
  }
  return meter;
}

}  // namespace

TEST_CASE("P11, trap 27: the idle share of a timeline is that of its simulation", "[idle]") {
  const auto kind = GENERATE(ScheduleKind::kGpipe, ScheduleKind::kOneForwardOneBackward,
                             ScheduleKind::kInterleaved, ScheduleKind::kZeroBubble);
  const int64_t chunks = kind == ScheduleKind::kInterleaved ? 2 : 1;
  const double slowest = GENERATE(1.0, 1.5);
  const Schedule schedule = make_schedule({kind, 4, chunks, 8, 0});
  const SimulationPrices prices = prices_of(4 * chunks, slowest);
  const Simulation simulation = simulate(schedule, prices);
  const IdleMeter meter = measure(schedule, prices, 3);
  INFO(schedule_kind_name(kind) << " " << slowest);
  CHECK(meter.idle_share() == Approx(simulation.idle_share).margin(1e-9));
  CHECK(meter.part_ns() == 3 * static_cast<int64_t>(simulation.makespan * 1e9 + 0.5));
  for (int64_t c = 0; c < 4; ++c) {
    const double busy = simulation.coordinates[static_cast<size_t>(c)].busy;
    CHECK(static_cast<double>(meter.busy_ns(c)) == Approx(3e9 * busy));
    CHECK(meter.idle_share(c) == Approx(1 - busy / simulation.makespan).margin(1e-9));
  }
  REQUIRE(meter.has_all_stages());
  CHECK(meter.simulated_share(schedule) == Approx(simulation.idle_share).margin(1e-9));
  const double even = simulate(schedule, prices_of(4 * chunks, 1)).idle_share;
  CHECK(meter.even_share(schedule) == Approx(even).margin(1e-9));
}

TEST_CASE("the even share is the formula of the schedule", "[idle]") {
  const auto share = [](ScheduleKind kind, int64_t p, int64_t v, int64_t m) {
    const Schedule schedule = make_schedule({kind, p, v, m, 0});
    return measure(schedule, prices_of(p * v, 1.3), 1).even_share(schedule);
  };
  CHECK(share(ScheduleKind::kOneForwardOneBackward, 2, 1, 8) == Approx(1.0 / 9));
  CHECK(share(ScheduleKind::kOneForwardOneBackward, 4, 1, 8) == Approx(3.0 / 11));
  CHECK(share(ScheduleKind::kInterleaved, 2, 2, 8) == Approx(1.0 / 17));
  CHECK(share(ScheduleKind::kOneForwardOneBackward, 1, 1, 8) == Approx(0).margin(1e-12));
}

TEST_CASE("only passes count", "[idle]") {
  const Instruction forward{Operation::kForward, 0, 0}, backward{Operation::kBackward, 0, 0};
  IdleMeter meter(2, 2);
  CHECK(meter.idle_share() == 0);
  CHECK(!meter.has_all_stages());
  const std::vector<TraceEvent> first = {
      {forward, 1, 10 * kUnit, 20 * kUnit},
      {{Operation::kReceiveBackward, 0, 0}, 1, 20 * kUnit, 50 * kUnit},
      {backward, 1, 50 * kUnit, 70 * kUnit},
      {{Operation::kReduce, 0, 0}, 1, 70 * kUnit, 500 * kUnit},
      {{Operation::kStep, 0, 0}, 1, 500 * kUnit, 900 * kUnit}};
  const std::vector<TraceEvent> second = {
      {{Operation::kForward, 0, 1}, 1, 20 * kUnit, 30 * kUnit},
      {{Operation::kBackward, 0, 1}, 1, 30 * kUnit, 50 * kUnit}};
  meter.add(0, first);
  meter.add(1, second);
  meter.end_part();
  meter.end_part();  // a call without passes adds nothing
  CHECK(meter.part_ns() == 60 * kUnit);
  CHECK(meter.busy_ns(0) == 30 * kUnit);
  CHECK(meter.idle_share(1) == Approx(0.5));
  CHECK(meter.idle_share() == Approx(0.5));
  CHECK(meter.has_all_stages());
}

}  // namespace plait::test
