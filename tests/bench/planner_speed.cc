#include "tests/bench/planner_speed.h"

#include <cstdio>
#include <ctime>

#include "engine/planner/enumerate.h"
#include "engine/planner/layout_keys.h"
#include "engine/planner/search.h"

namespace plait::bench {
namespace {

constexpr double kCandidatesPerSecond = 10000;
constexpr double kPlanSeconds = 2;
constexpr double kStepSeconds = 1;

/// Seconds of a core since the start of the program: on a busy machine too.
double core_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Job job_of_175b() {
  Config config;
  config.load_json(
      R"({"model.family": "gpt2", "model.layers": 96, "model.hidden": 12288, "model.heads": 96,
          "model.vocab_size": 51200, "model.sequence_length": 2048, "train.global_batch": 1536,
          "precision.compute": "bf16", "hardware.name": "dgx-a100"})");
  return make_job(config, 1024);
}

LayoutConfig all_free() {
  LayoutConfig layout;
  for (const auto& [key, value] : layout_keys({})) layout.auto_keys.push_back(key);
  return layout;
}

bool print_candidates(const Job& job) {
  int64_t tried = 0, legal = 0, fitting = 0;
  const double begin = core_seconds();
  enumerate_layouts(job, all_free(), [&](const LayoutConfig& layout) {
    ++tried;
    if (!violated_rules(job, layout).empty()) return;
    ++legal;
    fitting += fits(job, price(job, layout), nullptr);
  });
  const double rate = static_cast<double>(tried) / (core_seconds() - begin);
  std::printf(
      "%.0f candidates a second through rules, memory and bound (goal %.0f): %lld tried, "
      "%lld legal, %lld fit\n",
      rate, kCandidatesPerSecond, static_cast<long long>(tried), static_cast<long long>(legal),
      static_cast<long long>(fitting));
  return rate >= kCandidatesPerSecond;
}

bool print_plan(const Job& job) {
  const double begin = core_seconds();
  const SearchResult result = search(job, all_free());
  const double seconds = core_seconds() - begin;
  std::printf(
      "%.2f s for the plan of 175e9 weights on 1024 devices (goal %.0f): %lld simulated, "
      "best %s\n",
      seconds, kPlanSeconds, static_cast<long long>(result.simulated),
      layout_text(result.candidates.at(0).estimate.layout).c_str());
  return seconds < kPlanSeconds;
}

bool print_step() {
  const Schedule schedule = make_schedule({ScheduleKind::kInterleaved, 64, 4, 512, 1});
  SimulationPrices prices;
  prices.stages.assign(64 * 4, {1, 2, 1, 1});
  const double begin = core_seconds();
  const Simulation simulation = simulate(schedule, prices);
  const double seconds = core_seconds() - begin;
  std::printf(
      "%.2f s for a step of 64 coordinates, 4 chunks, 512 micro-batches (goal %.0f): %.0f "
      "units of time\n",
      seconds, kStepSeconds, simulation.makespan);
  return seconds < kStepSeconds;
}

}  // namespace

bool print_planner_speed() {
  const Job job = job_of_175b();
  const bool has_rate = print_candidates(job);
  const bool has_plan = print_plan(job);
  return print_step() && has_rate && has_plan;
}

}  // namespace plait::bench
