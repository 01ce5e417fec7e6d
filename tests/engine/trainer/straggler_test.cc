// Slow ranks are named: the judgement on paces that are known, and engines with a rank that sleeps.
#include "engine/trainer/straggler_watch.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/engine/comm/world/world_rig.h"
#include "tests/engine/trainer/open_engine.h"

namespace plait::test {
namespace {

thread_local bool is_slow_thread = false;

/// A clock that costs its caller time on the thread that is slow: three times what passed since the
/// last question, within limits. A rank asks before and after each instruction.
class SlowClock final : public Clock {
 public:
  int64_t now_ns() override {
    if (!is_slow_thread) return posix_env().clock.now_ns();
    const int64_t passed = posix_env().clock.now_ns() - last_ns_;
    const int64_t delay = std::clamp<int64_t>(3 * passed, 3'000'000, 60'000'000);
    std::this_thread::sleep_for(std::chrono::nanoseconds(delay));
    return last_ns_ = posix_env().clock.now_ns();
  }
  int64_t wall_ns() override { return posix_env().clock.wall_ns(); }

 private:
  int64_t last_ns_ = 0;  // of the one slow thread
};

/// What an engine needs for rank 3 to be slow.
struct SlowRank {
  SlowRank() {
    options.env = &env;
    options.hooks.start = [](const char* name) {
      is_slow_thread = std::string(name) == "plait-rank-3";
    };
  }
  SlowClock clock;
  Env env{posix_env().files, clock, posix_env().entropy};
  OpenEngine::Options options;
};

const Keys kFourRanks = {{"layout.data", "2"}, {"layout.tensor", "2"}};
constexpr int64_t kSteps = 2 * PaceMeter::kWindow + 2;

std::vector<double> train(OpenEngine& engine) {
  std::vector<double> losses;
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 1);
  for (int64_t i = 0; i < kSteps; ++i) {
    losses.push_back(step(*engine, token_batch(rows, 4)).loss);
  }
  return losses;
}

/// The log and the counters of an engine name rank 3.
void check_named(OpenEngine& engine) {
  CHECK(engine->counter("straggler_rank") == 3);
  CHECK(engine->counter("straggler_ratio") > 1.5);
  const nlohmann::json report = nlohmann::json::parse(engine->report("counters"));
  bool is_reported = false;
  for (const nlohmann::json& one : report["stragglers"]) {
    if (one["rank"] != 3) continue;
    is_reported = true;
    CHECK(one["tensor"] == 1);
    CHECK(one["pipeline"] == 0);
    CHECK(one["data"] == 1);
    CHECK(one["step_seconds"] > 0.005);
  }
  CHECK(is_reported);
  int64_t told = 0;
  for (const std::string& text : engine.warnings()) {
    if (has(text, "slower than its peers: rank=3 tensor=1 pipeline=0 data=1 ratio=")) ++told;
  }
  CHECK(told == 1);  // in two windows
}

std::vector<RankPace> paces(const std::vector<double>& seconds) {
  std::vector<RankPace> all;
  for (const double one : seconds) all.push_back({one, 1.0});
  return all;
}

std::vector<int64_t> ranks_of(const std::vector<Straggler>& stragglers) {
  std::vector<int64_t> ranks;
  for (const Straggler& one : stragglers) ranks.push_back(one.rank);
  return ranks;
}

}  // namespace

TEST_CASE("a rank is measured by the median of those with its stages", "[straggler]") {
  StragglerWatch watch(Mesh(2, 2, 2));  // ranks 0 to 3 on the first coordinate, 4 to 7 on the last
  using Ranks = std::vector<int64_t>;
  // The last coordinate has more to do, all of it.
  CHECK(ranks_of(watch.judge(paces({1, 1.2, 0.9, 1.1, 3, 3.1, 2.9, 3}))) == Ranks{});
  CHECK(watch.worst() == nullptr);
  CHECK(ranks_of(watch.judge(paces({1, 1, 1.6, 1, 3, 3, 3, 9}))) == Ranks{2, 7});
  REQUIRE(watch.worst() != nullptr);
  CHECK(watch.worst()->rank == 7);
  CHECK(watch.worst()->ratio == Approx(3));
  CHECK(watch.worst()->at == Coordinates{1, 1, 1});
  CHECK(ranks_of(watch.judge(paces({1, 1, 1.49, 1, 3, 3, 3, 3}))) == Ranks{});
  CHECK(watch.stragglers().empty());
}

TEST_CASE("two ranks, pipelines of one rank a stage, and noise", "[straggler]") {
  using Ranks = std::vector<int64_t>;
  StragglerWatch two(Mesh(1, 1, 2));
  CHECK(ranks_of(two.judge(paces({0.2, 0.1}))) == Ranks{0});
  CHECK(two.stragglers()[0].ratio == Approx(2));
  StragglerWatch noise(Mesh(1, 1, 2));
  CHECK(ranks_of(noise.judge(paces({0.001, 0.009}))) == Ranks{});
  // A stage with twice the work may take twice as long; one without work is not judged.
  StragglerWatch pipeline(Mesh(1, 4, 1));
  CHECK(ranks_of(pipeline.judge(std::vector<RankPace>{{1, 10}, {1.1, 10}, {5, 0}, {2.2, 20}})) ==
        Ranks{});
  CHECK(ranks_of(pipeline.judge(std::vector<RankPace>{{1, 10}, {1.7, 10}, {5, 0}, {2.2, 20}})) ==
        Ranks{1});
  StragglerWatch one(Mesh(1, 1, 1));
  CHECK(ranks_of(one.judge(paces({1}))) == Ranks{});
}

TEST_CASE("a rank that stays slow is warned of now and then", "[straggler]") {
  StragglerWatch watch(Mesh(1, 1, 3));
  std::vector<int64_t> windows;
  for (int64_t window = 0; window < 25; ++window) {
    if (!watch.judge(paces({1, 1, 2})).empty()) windows.push_back(window);
    CHECK(watch.stragglers().size() == 1);
  }
  CHECK(windows == std::vector<int64_t>{0, 10, 20});
}

TEST_CASE("an engine names its slow rank and trains as before", "[straggler]") {
  OpenEngine usual(tiny_config(kFourRanks));
  const std::vector<double> losses = train(usual);
  SlowRank slow;
  OpenEngine engine(tiny_config(kFourRanks), slow.options);
  CHECK(train(engine) == losses);
  check_named(engine);
  const nlohmann::json ranks = nlohmann::json::parse(engine->report("counters"))["ranks"];
  for (size_t rank = 0; rank < 3; ++rank) {
    CHECK(ranks[rank]["compute_seconds"] > 0.0);
    CHECK(ranks[rank]["compute_seconds"] < ranks[3]["compute_seconds"]);
  }
}

TEST_CASE("every process names the slow rank of one of them", "[straggler]") {
  const Worlds worlds = complete_worlds({2, 2});
  SlowRank slow;
  std::vector<std::unique_ptr<OpenEngine>> engines(2);
  const std::vector<Ending> endings = on_each(worlds, [&](size_t i) {
    OpenEngine::Options options = slow.options;
    options.world = worlds[i].get();
    engines[i] = std::make_unique<OpenEngine>(tiny_config(kFourRanks), options);
    train(*engines[i]);
  });
  for (size_t i = 0; i < 2; ++i) {
    INFO(endings[i].error.message());
    REQUIRE(endings[i].word == "");
    check_named(*engines[i]);
  }
}

}  // namespace plait::test
