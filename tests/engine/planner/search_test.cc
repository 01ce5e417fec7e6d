// Searches: what is listed and in which order, ties and bands, rejected layouts and their fixes.
#include "engine/planner/search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/planner/layout_keys.h"

using namespace plait;

namespace {

constexpr const char* kMedium =
    R"({"model.family": "gpt2", "model.layers": 12, "model.hidden": 1536, "model.heads": 16,
        "model.vocab_size": 51200, "model.sequence_length": 1024, "train.global_batch": 48,
        "precision.compute": "bf16", "hardware.name": "dgx-a100"})";

/// 175e9 weights.
constexpr const char* kLarge =
    R"({"model.family": "gpt2", "model.layers": 96, "model.hidden": 12288, "model.heads": 96,
        "model.vocab_size": 51200, "model.sequence_length": 2048, "train.global_batch": 1536,
        "precision.compute": "bf16", "hardware.name": "dgx-a100"})";

Config config_of(const char* json, const char* more = "{}") {
  Config config;
  config.load_json(json);
  config.load_json(more);
  return config;
}

/// A layout of which the keys of `json` are pinned and all others free.
LayoutConfig pinned(const char* json) {
  Config config = config_of(json);
  for (const auto& [key, value] : layout_keys({})) {
    if (!config.is_set(key)) config.set(key, "auto");
  }
  return make_layout(config);
}

size_t feasible_count(const SearchResult& result) {
  return static_cast<size_t>(std::count_if(result.candidates.begin(), result.candidates.end(),
                                           [](const Candidate& c) { return c.is_feasible; }));
}

const Candidate* with_word(const SearchResult& result, const std::string& word) {
  for (const Candidate& candidate : result.candidates) {
    if (!candidate.is_feasible && candidate.violations[0].word == word) return &candidate;
  }
  return nullptr;
}

int64_t bytes_of(const Estimate& estimate) {
  return estimate.memory[static_cast<size_t>(estimate.fullest)].total();
}

/// Every fix of a rejected candidate keeps the rules, fits, and costs what it says.
int check_fixes(const Job& job, const SearchResult& result) {
  int count = 0;
  for (const Candidate& candidate : result.candidates) {
    for (const Fix& fix : candidate.fixes) {
      INFO(layout_text(candidate.estimate.layout) << " -> " << fix.text);
      Job changed = job;
      if (fix.global_batch > 0) changed.train.global_batch = fix.global_batch;
      REQUIRE(violated_rules(changed, fix.layout).empty());
      const Estimate whole = estimate(changed, fix.layout);
      CHECK(fits(changed, whole, nullptr));
      CHECK(fix.step_seconds == whole.step_seconds);
      CHECK(fix.memory_bytes == bytes_of(whole));
      CHECK_FALSE(fix.text.empty());
      ++count;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("a layout is told by its degrees and what is not the default") {
  LayoutConfig layout;
  CHECK(layout_text(layout) == "tensor=1,pipeline=1,data=1");
  layout.tensor = 8;
  layout.pipeline = 4;
  layout.interleave = 2;
  layout.micro_batch = 3;
  layout.schedule = ScheduleChoice::kInterleaved;
  CHECK(layout_text(layout) == "tensor=8,pipeline=4,data=1,interleave=2,micro_batch=3");
  layout.interleave = 1;
  layout.schedule = ScheduleChoice::kZeroBubble;
  layout.zero = 1;
  layout.sequence_parallel = true;
  layout.recompute = RecomputeChoice::kFull;
  layout.stage_layers = {2, 3, 3, 2};
  CHECK(layout_text(layout) ==
        "tensor=8,pipeline=4,data=1,micro_batch=3,schedule=zero_bubble,zero=1,"
        "sequence_parallel=true,recompute=full,stage_layers=[2,3,3,2]");
}

TEST_CASE("a search that leaves out what is slow has the order of one that leaves out nothing") {
  Job job = make_job(config_of(kMedium), 16);
  job.top = 3;
  const SearchResult best = search(job, pinned("{}"));
  job.top = 1'000'000;
  const SearchResult all = search(job, pinned("{}"));
  REQUIRE(all.simulated == static_cast<int64_t>(feasible_count(all)));
  CHECK(all.skipped == 0);
  CHECK(best.tried == all.tried);
  CHECK(best.rejected == all.rejected);
  CHECK(best.tried == best.rejected + best.skipped + static_cast<int64_t>(feasible_count(best)));
  CHECK(best.simulated < all.simulated);
  REQUIRE(feasible_count(best) >= 3);
  REQUIRE(feasible_count(best) < feasible_count(all));
  for (size_t i = 0; i < feasible_count(best); ++i) {
    const Candidate &one = best.candidates[i], &other = all.candidates[i];
    REQUIRE(layout_text(one.estimate.layout) == layout_text(other.estimate.layout));
    REQUIRE(one.estimate.step_seconds == other.estimate.step_seconds);
    REQUIRE(one.is_tie == other.is_tie);
  }
  for (size_t i = 1; i < feasible_count(all); ++i) {
    const Estimate &before = all.candidates[i - 1].estimate, &now = all.candidates[i].estimate;
    REQUIRE(before.step_seconds <= now.step_seconds);
    if (before.step_seconds == now.step_seconds) REQUIRE(bytes_of(before) <= bytes_of(now));
    REQUIRE(now.bound_seconds <= now.step_seconds * (1 + 1e-12));
  }
  const double limit = all.candidates[0].estimate.step_seconds * (1 + band_of(job).relative / 2);
  for (size_t i = 0; i < feasible_count(all); ++i) {
    CHECK(all.candidates[i].is_tie == (all.candidates[i].estimate.step_seconds <= limit));
  }
}

TEST_CASE("a search tries every kind of layout once") {
  Config config = config_of(kMedium, R"({"planner.search": ["uneven", "gpipe", "zero3"]})");
  Job job = make_job(config, 8);
  job.top = 1'000'000;
  const SearchResult result = search(job, pinned("{}"));
  std::set<std::string> texts;
  std::set<int64_t> tensors, chunks, zeros;
  std::set<ScheduleChoice> schedules;
  bool has_counts = false;
  for (size_t i = 0; i < feasible_count(result); ++i) {
    const LayoutConfig& layout = result.candidates[i].estimate.layout;
    CHECK(texts.insert(layout_text(layout)).second);
    CHECK(layout.auto_keys.empty());
    tensors.insert(layout.tensor);
    chunks.insert(layout.interleave);
    zeros.insert(layout.zero);
    schedules.insert(layout.schedule);
    has_counts = has_counts || !layout.stage_layers.empty();
  }
  CHECK(tensors == std::set<int64_t>{1, 2, 4, 8});
  CHECK(chunks == std::set<int64_t>{1, 2, 3, 6});
  CHECK(zeros.count(0) + zeros.count(1) + zeros.count(3) == 3);
  CHECK(schedules.size() == 4);
  CHECK(has_counts);
}

TEST_CASE("better hardware never makes the best plan slower") {
  const Job job = [] {
    Job small = make_job(config_of(kMedium), 8);
    small.top = 1;
    return small;
  }();
  const auto best = [](const Job& of) {
    const SearchResult result = search(of, pinned(R"({"layout.recompute": "none"})"));
    REQUIRE(result.candidates[0].is_feasible);
    return result.candidates[0].estimate.step_seconds;
  };
  const double before = best(job) * (1 + 1e-9);
  Job better = job;
  better.hardware.memory_bytes *= 2;
  CHECK(best(better) <= before);
  better = job;
  better.hardware.peak_bfloat16 *= 2;
  CHECK(best(better) < before);
  better = job;
  better.hardware.memory_bytes_per_second *= 2;
  CHECK(best(better) < before);
  better = job;
  for (CollectiveLine& line : better.hardware.collectives) line.bytes_per_second *= 2;
  CHECK(best(better) <= before);
  better = job;
  better.hardware.node_transfer.bytes_per_second *= 2;
  better.hardware.fabric_transfer.bytes_per_second *= 2;
  CHECK(best(better) <= before);
}

TEST_CASE("all broken rules of a layout are told, and a fix that passes them") {
  const Job job =
      make_job(config_of(R"({"model.family": "gpt2", "model.layers": 6, "model.hidden": 384,
                    "model.heads": 6, "model.vocab_size": 65, "model.sequence_length": 256,
                    "train.global_batch": 64, "hardware.name": "dgx-a100"})"),
               4);
  const SearchResult result =
      search(job, pinned(R"({"layout.tensor": 4, "layout.micro_batch": 3})"));
  REQUIRE(result.candidates.size() == 1);  // one reason, whatever the free keys say
  const Candidate& rejected = result.candidates[0];
  CHECK_FALSE(rejected.is_feasible);
  CHECK(rejected.count == result.tried);
  CHECK(result.rejected == result.tried);
  REQUIRE(rejected.violations.size() == 2);
  CHECK(rejected.violations[0].sentence == "model.heads 6 is no multiple of layout.tensor 4");
  CHECK(rejected.violations[1].sentence ==
        "train.global_batch 64 is no multiple of 3 (layout.data 1 times layout.micro_batch 3)");
  REQUIRE_FALSE(rejected.fixes.empty());
  // Two ranks are the most that six heads take; samples of 32 come in twos at most, of 64 too.
  const Fix& fix = rejected.fixes[0];
  CHECK(fix.layout.tensor == 2);
  CHECK(fix.layout.micro_batch == 2);
  CHECK(fix.text.find("tensor=2") == 0);
  CHECK(fix.text.find("micro_batch=2") != std::string::npos);
  CHECK(check_fixes(job, result) >= 2);
}

TEST_CASE("a pinned layout is one candidate") {
  const Job job = make_job(config_of(kMedium), 16);
  LayoutConfig layout =
      make_layout(config_of(kMedium, R"({"layout.tensor": 4, "layout.data": 4})"));
  const SearchResult fits = search(job, layout);
  REQUIRE(fits.candidates.size() == 1);
  CHECK(fits.candidates[0].is_feasible);
  CHECK_FALSE(fits.candidates[0].is_tie);
  CHECK(fits.candidates[0].estimate.step_seconds == estimate(job, layout).step_seconds);
  CHECK(fits.tried == 1);

  layout.data = 3;
  const SearchResult odd = search(job, layout);
  REQUIRE(odd.candidates.size() == 1);
  CHECK(std::string(odd.candidates[0].violations[0].word) == "devices");
  REQUIRE_FALSE(odd.candidates[0].fixes.empty());
  const auto& fixes = odd.candidates[0].fixes;
  CHECK(
      std::any_of(fixes.begin(), fixes.end(), [](const Fix& fix) { return fix.text == "data=4"; }));
  check_fixes(job, odd);
}

TEST_CASE("degrees beyond the world, and sizes beyond all memory, are rejected") {
  const Job small = make_job(config_of(kMedium), 4);
  LayoutConfig deep = make_layout(config_of(kMedium, R"({"layout.pipeline": 8})"));
  const SearchResult beyond = search(small, deep);
  REQUIRE(beyond.candidates.size() == 1);
  CHECK(std::string(beyond.candidates[0].violations[0].word) == "devices");
  CHECK(check_fixes(small, beyond) > 0);
  deep.pipeline = deep.tensor = deep.data = 1048576;
  deep.auto_keys = {"layout.tensor"};
  CHECK(feasible_count(search(make_job(config_of(kMedium), 1 << 30), deep)) == 0);

  const Job vast = make_job(
      config_of(kMedium,
                R"({"model.layers": 65536, "model.hidden": 1048576, "model.heads": 1024})"),
      1);
  const SearchResult none = search(vast, make_layout(config_of(kMedium)));
  REQUIRE(none.candidates.size() == 1);
  CHECK_FALSE(none.candidates[0].is_feasible);
  CHECK(std::string(none.candidates[0].violations[0].word) == "memory");
}

TEST_CASE("canonical sums want whole heads in every part") {
  const char* canonical = R"({"precision.reduction": "canonical", "model.heads": 1})";
  const Job job = make_job(config_of(kMedium, canonical), 1);
  const SearchResult result = search(job, make_layout(config_of(kMedium)));
  REQUIRE(result.candidates.size() == 1);
  CHECK_FALSE(result.candidates[0].is_feasible);
  CHECK(std::string(result.candidates[0].violations[0].word) == "canonical");
}

TEST_CASE("rejected layouts stand together by reason") {
  Job job = make_job(config_of(kLarge), 64);
  job.top = 2;
  const SearchResult result =
      search(job, pinned(R"({"layout.tensor": 8, "layout.data": 1, "layout.micro_batch": 1})"));
  REQUIRE(feasible_count(result) >= 2);
  const Candidate* memory = with_word(result, "memory");
  REQUIRE(memory != nullptr);
  CHECK(memory->count > 1);
  CHECK(memory->violations[0].first > memory->violations[0].second);
  CHECK(memory->violations[0].second == job.hardware.memory_limit());
  CHECK(memory->estimate.step_seconds > 0);  // what it would take if it fitted
  CHECK_FALSE(memory->fixes.empty());
  int64_t rejected = 0;
  std::set<std::string> words;
  for (const Candidate& candidate : result.candidates) {
    if (candidate.is_feasible) continue;
    rejected += candidate.count;
    std::string reason;
    for (const Violation& violation : candidate.violations) reason += violation.word;
    CHECK(words.insert(reason).second);
  }
  CHECK(rejected == result.rejected);
  CHECK(check_fixes(job, result) > 0);
}

TEST_CASE("a batch that no layout can use is one reason") {
  const Job job = make_job(config_of(kMedium, R"({"train.global_batch": 47})"), 16);
  const SearchResult result = search(job, pinned(R"({"layout.data": 4})"));
  REQUIRE(result.candidates.size() == 1);
  const Candidate& rejected = result.candidates[0];
  CHECK(std::string(rejected.violations[0].word) == "batch");
  CHECK(rejected.count == result.tried);
  CHECK(result.tried > 10);
  std::set<int64_t> batches;
  for (const Fix& fix : rejected.fixes) {
    if (fix.global_batch > 0) batches.insert(fix.global_batch);
  }
  CHECK(batches == std::set<int64_t>{44, 48});
  CHECK(rejected.fixes.back().text == "train.global_batch=44");
  check_fixes(job, result);
}

TEST_CASE("micro-batches of an interleaved pipeline come in whole groups") {
  const Job job = make_job(config_of(kMedium), 4);
  const LayoutConfig layout = make_layout(config_of(
      kMedium, R"({"layout.pipeline": 4, "layout.interleave": 3, "layout.micro_batch": 8})"));
  const SearchResult result = search(job, layout);
  REQUIRE(result.candidates.size() == 1);
  REQUIRE(result.candidates[0].violations.size() == 1);
  CHECK(std::string(result.candidates[0].violations[0].word) == "interleave");
  CHECK(result.candidates[0].violations[0].first == 6);
  std::set<std::string> texts;
  for (const Fix& fix : result.candidates[0].fixes) texts.insert(fix.text);
  CHECK(texts == std::set<std::string>{"interleave=1,schedule=one_forward_one_backward",
                                       "micro_batch=6", "train.global_batch=32",
                                       "train.global_batch=64"});
  check_fixes(job, result);
}

TEST_CASE("what fits nowhere names the smallest world in which it would") {
  Job job = make_job(config_of(kLarge, R"({"train.global_batch": 64})"), 8);
  job.top = 1;
  const SearchResult result = search(job, pinned("{}"));
  REQUIRE(feasible_count(result) == 0);
  REQUIRE(result.smallest_world > 8);
  CHECK(result.smallest_world % 8 == 0);
  Job larger = job;
  larger.world = result.smallest_world;
  CHECK(search(larger, pinned("{}")).candidates[0].is_feasible);
  larger.world -= 8;
  CHECK(feasible_count(search(larger, pinned("{}"))) == 0);
}

TEST_CASE("a pinned layout that two changes do not help gets what the search finds") {
  const char* batch = R"({"train.global_batch": 64})";
  const Job job = make_job(config_of(kLarge, batch), 64);
  const LayoutConfig layout = make_layout(config_of(kLarge, R"({"layout.data": 64})"));
  const SearchResult result = search(job, layout);
  REQUIRE(result.candidates.size() == 1);
  CHECK(std::string(result.candidates[0].violations[0].word) == "memory");
  REQUIRE(result.candidates[0].fixes.size() == 1);
  CHECK(result.smallest_world == 0);
  check_fixes(job, result);
}

TEST_CASE("bands rest on calibrations") {
  const Config config = config_of(kLarge);
  Job job = make_job(config, 64);
  job.hardware.calibration = Calibration{};
  job.hardware.calibration->profile = "plait";
  job.hardware.calibration->dtype = DType::kFloat16;
  job.hardware.calibration->largest_world = 64;
  job.hardware.calibration->p90_leave_one_out = 0.034;
  CHECK(band_of(job).is_calibrated);
  CHECK(band_of(job).relative == 0.05);
  CHECK(band_of(job).reasons.empty());
  job.hardware.calibration->p90_leave_one_out = 0.07;
  CHECK(band_of(job).relative == 0.07);
  job.world = 65;
  CHECK(band_of(job).relative == Approx(0.09));
  job.precision.compute = DType::kFloat32;
  CHECK(band_of(job).relative == Approx(0.11));
  CHECK(band_of(job).reasons.size() == 2);
  job.profile.name = "megatron-2022";
  CHECK_FALSE(band_of(job).is_calibrated);
  CHECK(band_of(job).relative == 0.4);
  job.hardware.calibration.reset();
  CHECK(band_of(job).relative == 0.4);
}

TEST_CASE("shapes that run below every curve are warned of") {
  Job job = make_job(config_of(kMedium), 16);
  Estimate usual;
  usual.step_seconds = 2;
  CHECK(layout_warnings(job, usual).empty());
  usual.layout.tensor = 16;
  const std::vector<std::string> wide = layout_warnings(job, usual);
  REQUIRE(wide.size() == 1);
  CHECK(wide[0].find("16 is more than the 8 devices of a node") != std::string::npos);
  usual.layout.tensor = 1;
  usual.step_seconds = 0.1;
  CHECK(layout_warnings(job, usual).size() == 1);
  usual.step_seconds = 2;
  job.model.head_size = 20;
  CHECK(layout_warnings(job, usual).size() == 2);  // no multiple of 8, and below 64
  job.precision.compute = DType::kFloat32;
  CHECK(layout_warnings(job, usual).size() == 1);
}
