// Ranks that stand still, are slow, or fail in the middle of a step.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/fault_cases.h"
#include "tests/faults/process_engines.h"
#include "tests/faults/rank_clock.h"
#include "tests/support/local_world.h"

using namespace plait;
using namespace plait::test;

namespace {

/// An engine of one process whose ranks ask `clock`.
struct ClockedEngine {
  explicit ClockedEngine(const Config& config) : world(local_world(config)) {
    EngineOptions options;
    options.env = &clock.env();
    options.log = &log;
    options.hooks = clock.hooks();
    options.world = world.get();
    engine = Engine::create(config, options, -1);
  }
  ~ClockedEngine() { is_over = true; }

  /// A rank computes until the test ends.
  void spin() {
    while (!is_over) sleep_ms(1);
  }

  /// Warnings of standstills since the last call.
  std::vector<LogRecord> warnings() {
    std::vector<LogRecord> found;
    LogRecord record;
    while (log.pop(&record)) {
      if (has(record.message, "no progress for ")) found.push_back(record);
    }
    return found;
  }

  RankClock clock;
  Log log{posix_env().clock};
  std::atomic<bool> is_over{false};
  std::unique_ptr<World> world;
  std::unique_ptr<Engine> engine;
};

const Keys kShortStalls = {{"timeout.stall_min_ms", "300"}, {"timeout.first_steps_ms", "20000"}};

}  // namespace

TEST_CASE("R3: a rank that spins is stalled by its rank, and the call ends", "[faults][stall]") {
  const Layout layout = GENERATE(degrees(1, 1, 1), degrees(2, 2, 1), degrees(1, 2, 2, 3));
  const int64_t victim = layout.world() - 1;
  INFO(layout.text());
  ClockedEngine rig(fault_config(layout, kShortStalls));
  const std::vector<int32_t> rows = fault_rows(51);
  const Batch batch = token_batch(rows, kFaultBatch);
  for (int i = 0; i < 5; ++i) step(*rig.engine, batch);
  rig.clock.arm(victim, 9, [&] { rig.spin(); });
  const auto endings = run_each({[&] { step(*rig.engine, batch); }});
  rig.is_over = true;
  const Error& error = endings[0].error;
  INFO(error.message());
  CHECK(endings[0].word == "stalled");
  CHECK(error.code() == Code::kDeadlineExceeded);
  CHECK(error.disposition() == Disposition::kEngineLost);
  CHECK(error.rank() == victim);
  CHECK(has(error.message(), "rank=" + std::to_string(victim) + " phase="));
  CHECK(endings[0].took_ms >= 300);
  CHECK(endings[0].took_ms < 3000);
  const std::vector<LogRecord> warnings = rig.warnings();  // at three tenths of the limit
  REQUIRE(warnings.size() == 1);
  INFO(warnings[0].message);
  CHECK(warnings[0].level == LogLevel::kWarning);
  CHECK(warnings[0].rank == victim);
  CHECK(has(warnings[0].message, "rank " + std::to_string(victim) + " is busy in "));
  CHECK(rig.engine->state() == EngineState::kLost);
  CHECK(run_each({[&] { step(*rig.engine, batch); }})[0].word == "aborted");
  CHECK(nlohmann::json::parse(rig.engine->report("operations"))["ranks"].size() ==
        static_cast<size_t>(layout.world()));
}

TEST_CASE("R3: three times the median step is worth a warning, ten times is the limit",
          "[faults][stall]") {
  ClockedEngine rig(fault_config(
      degrees(1, 1, 2), {{"timeout.stall_min_ms", "1"}, {"timeout.first_steps_ms", "20000"}}));
  const std::vector<int32_t> rows = fault_rows(52);
  const Batch batch = token_batch(rows, kFaultBatch);
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {  // so a step takes 60 ms, and more
    rig.clock.arm(0, 3, [] { sleep_ms(60); });
    seconds.push_back(step(*rig.engine, batch).step_seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  const double median_ms = 1000 * seconds[3];
  rig.warnings();
  // Beyond three times the median: slow, not stalled.
  rig.clock.arm(1, 3, [&] { sleep_ms(static_cast<int64_t>(6 * median_ms)); });
  step(*rig.engine, batch);
  CHECK(rig.warnings().size() == 1);
  rig.clock.arm(1, 3, [&] { rig.spin(); });
  const auto endings = run_each({[&] { step(*rig.engine, batch); }});
  rig.is_over = true;
  INFO(endings[0].error.message());
  CHECK(endings[0].word == "stalled");
  CHECK(endings[0].error.rank() == 1);
  CHECK(static_cast<double>(endings[0].took_ms) >= 10 * median_ms);
  CHECK(static_cast<double>(endings[0].took_ms) < 25 * median_ms + 2000);
}

TEST_CASE("ranks read no rows of the host: it may free them when a call was given up",
          "[faults][stall]") {
  const Layout layout = degrees(1, 2, 2);
  ClockedEngine disturbed(fault_config(layout));
  TestEngine usual(fault_config(layout));
  const std::vector<int32_t> first = fault_rows(61), second = fault_rows(62);
  std::vector<int32_t> rows;
  const Batch expected = token_batch(first, kFaultBatch);
  const auto changed_while_it_runs = [&] {
    rows = first;
    disturbed.clock.arm(0, 0, [&] { std::copy(second.begin(), second.end(), rows.begin()); });
    return token_batch(rows, kFaultBatch);
  };
  Metrics got, want;
  const Batch changed = changed_while_it_runs();
  disturbed.engine->evaluate(&changed, -1, &got);
  usual->evaluate(&expected, -1, &want);
  CHECK(got.loss == want.loss);
  const size_t elements = kFaultBatch * kFaultSequence;
  std::vector<float> losses(elements), usual_losses(elements);
  const auto bytes = static_cast<int64_t>(elements * sizeof(float));
  disturbed.engine->score(changed_while_it_runs(), -1, losses.data(), bytes);
  usual->score(expected, -1, usual_losses.data(), bytes);
  CHECK(losses == usual_losses);
  CHECK(step(*disturbed.engine, changed_while_it_runs()).loss == step(*usual, expected).loss);
  disturbed.engine->forward_backward(changed_while_it_runs(), -1, &got);
  usual->forward_backward(expected, -1, &want);
  CHECK(got.loss == want.loss);
  CHECK(rows == second);
}

TEST_CASE("R4: a slow rank is no error", "[faults][stall]") {
  ClockedEngine slow(fault_config(degrees(2, 1, 2), kShortStalls));
  TestEngine usual(fault_config(degrees(2, 1, 2), kShortStalls));
  for (uint64_t i = 0; i < 6; ++i) {
    const std::vector<int32_t> rows = fault_rows(53 + i);
    slow.clock.arm(2, 5, [] { sleep_ms(30); });
    const Metrics got = step(*slow.engine, token_batch(rows, kFaultBatch));
    const Metrics want = step(*usual, token_batch(rows, kFaultBatch));
    CHECK(got.loss == want.loss);
    CHECK(got.grad_norm == want.grad_norm);
    CHECK(got.step_seconds > 0.025);
    CHECK(slow.warnings().empty());
  }
}

TEST_CASE("R3, R11: a rank that spins in one process ends the step of all, by its rank",
          "[faults][stall]") {
  RankClock clock;
  std::atomic<bool> is_over{false};
  const size_t culprit = GENERATE(0u, 2u);  // both ends: nobody waits for all others
  ProcessOptions options;
  options.env = &clock.env();
  options.hooks = clock.hooks();
  ProcessEngines engines({1, 1, 1}, options);
  require_all(engines.create(fault_config(degrees(1, 3, 1), kShortStalls)), "");
  const std::vector<int32_t> rows = fault_rows(54);
  const auto step_all = [&] {
    return engines.each([&](size_t i) { step(engines[i], token_batch(rows, kFaultBatch)); });
  };
  for (int i = 0; i < 5; ++i) require_all(step_all(), "");
  clock.arm(static_cast<int64_t>(culprit), 9, [&] {
    while (!is_over) sleep_ms(1);
  });
  const auto endings = step_all();
  is_over = true;
  for (const Ending& ending : endings) {
    INFO(ending.error.message());
    CHECK(ending.word == "stalled");
    CHECK(ending.error.rank() == static_cast<int32_t>(culprit));
    CHECK(ending.took_ms < 6000);
  }
}

TEST_CASE("R1: a rank that fails anywhere in a step ends it for all, by its name and rank",
          "[faults][stall]") {
  const Layout layout =
      GENERATE(degrees(2, 2, 1), degrees(1, 2, 2, 1), with_sequence_parallel(degrees(2, 1, 2, 3)));
  const std::vector<int32_t> rows = fault_rows(55);
  bool is_past_the_end = false;
  for (int64_t nth = 0; !is_past_the_end; nth += 3 * static_cast<int64_t>(kCaseStep)) {
    const auto victim = static_cast<int32_t>(nth % layout.world());
    INFO(layout.text() << " rank " << victim << " at " << nth);
    ClockedEngine rig(fault_config(layout));
    rig.clock.arm(victim, nth, [] { throw Error("no_memory", "by the test").with("need", 7); });
    const auto endings = run_each({[&] { step(*rig.engine, token_batch(rows, kFaultBatch)); }});
    is_past_the_end = rig.clock.is_armed();
    if (is_past_the_end) break;
    INFO(endings[0].error.message());
    CHECK(endings[0].word == "no_memory");
    CHECK(endings[0].error.rank() == victim);
    CHECK(endings[0].error.disposition() == Disposition::kEngineLost);
    CHECK(has(endings[0].error.message(), "need=7"));
    CHECK(endings[0].took_ms < 1500);
    CHECK(rig.engine->state() == EngineState::kLost);
  }
}

TEST_CASE("R1, H2: a rank that fails in one process ends the step of all processes",
          "[faults][stall]") {
  const std::vector<int32_t> rows = fault_rows(56);
  for (const int64_t nth : {0, 7, 20, 33}) {
    for (const int32_t victim : {0, 3}) {
      INFO("rank " << victim << " at " << nth);
      RankClock clock;
      ProcessOptions options;
      options.env = &clock.env();
      options.hooks = clock.hooks();
      options.transport = nth % 2 == 0 ? "shm" : "tcp";
      ProcessEngines engines({2, 2}, options);
      require_all(engines.create(fault_config(degrees(1, 2, 2, 1))), "");
      clock.arm(victim, nth, [] { throw Error("no_memory", "by the test"); });
      const auto endings =
          engines.each([&](size_t i) { step(engines[i], token_batch(rows, kFaultBatch)); });
      REQUIRE_FALSE(clock.is_armed());
      for (const Ending& ending : endings) {
        INFO(ending.error.message());
        CHECK(ending.word == "no_memory");
        CHECK(ending.error.rank() == victim);
        CHECK(ending.took_ms < 3000);
      }
      // A smaller world in the same process trains on.
      TestEngine next(fault_config(degrees(1, 1, 2)));
      CHECK(step(*next, token_batch(rows, kFaultBatch)).step == 1);
    }
  }
}

TEST_CASE("H3, R11: engines of a lost world close and go in time", "[faults][stall]") {
  const std::vector<int32_t> rows = fault_rows(57);
  for (const size_t lost : {size_t{0}, size_t{2}}) {
    ProcessEngines engines({1, 1, 1, 1});
    require_all(engines.create(fault_config(degrees(2, 2, 1))), "");
    const auto endings = engines.each([&](size_t i) {
      if (i == lost) {
        step(engines[i], token_batch(rows, kFaultBatch));
        sleep_ms(50);
        engines.kill(i);
        return;
      }
      for (;;) step(engines[i], token_batch(rows, kFaultBatch));
    });
    const int64_t begin = now_ms();
    for (size_t i = 0; i < engines.size(); ++i) {
      if (i == lost) continue;
      INFO(endings[i].error.message());
      CHECK(endings[i].word == "peer_lost");
      CHECK(endings[i].error.rank() == static_cast<int32_t>(lost));
      engines[i].close(-1);
      CHECK(engines[i].state() == EngineState::kLost);
      engines.kill(i);
    }
    CHECK(now_ms() - begin < 5000);
  }
}
