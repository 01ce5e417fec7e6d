// Reports of candidates: JSON whose numbers agree, and timelines in which nothing overlaps.
#include "engine/planner/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/planner/layout_keys.h"
#include "tests/engine/config/config_samples.h"

using namespace plait;
using Json = nlohmann::json;

namespace {

Config planned_config(const char* more) {
  Config config = small_config();
  config.set("hardware.name", "dgx-a100");
  config.set("precision.compute", "bf16");
  config.load_json(more);
  return config;
}

struct Lane {
  std::string name;
  std::vector<Json> events;
};

std::map<int64_t, Lane> lanes_of(const Json& trace) {
  std::map<int64_t, Lane> lanes;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") {
      lanes[event["tid"].get<int64_t>()].name = event["args"]["name"];
    }
    if (event["ph"] == "X") lanes[event["tid"].get<int64_t>()].events.push_back(event);
  }
  return lanes;
}

}  // namespace

TEST_CASE("an estimate says everything, and its parts add up", "[report]") {
  const Config config = planned_config(
      R"({"layout": {"tensor": 2, "pipeline": 2, "data": 2, "micro_batch": 2, "zero": 1},
          "planner.tokens": 1e9, "hardware.price_per_device_hour": 2.5})");
  const Job job = make_job(config, 8);
  const SearchResult result = search(job, make_layout(config));
  REQUIRE(result.candidates.size() == 1);
  const Json report = Json::parse(estimate_report({job, result, result.candidates[0]}));
  const Estimate& estimate = result.candidates[0].estimate;
  CHECK(report["step_seconds"].get<double>() == estimate.step_seconds);
  const Json& parts = report["parts"];
  double sum = 0;
  for (const char* part : {"forward", "backward", "communication", "optimizer", "bubble", "host"}) {
    sum += parts[part].get<double>();
  }
  CHECK(sum == Approx(estimate.step_seconds).epsilon(1e-9));
  CHECK(report["coordinates"].size() == 2);
  CHECK(report["stages"].size() == 2);
  CHECK(report["stages"][1]["layers"] == 2);
  CHECK(report["memory"]["coordinates"].size() == 2);
  CHECK(report["memory"]["fullest"]["headroom_bytes"].get<int64_t>() ==
        job.hardware.memory_limit() - report["memory"]["fullest"]["bytes"].get<int64_t>());
  CHECK(report["traffic"]["ranks"][1]["rank"] == 4);
  CHECK(report["traffic"]["ranks"][0]["tensor"]["total"].get<int64_t>() > 0);
  CHECK(report["job"]["micro_batches"] == 4);
  CHECK(report["layout"]["layout.zero"] == 1);
  CHECK(report["layout"]["layout.recompute"] == "none");
  CHECK(report["run"]["steps"] == (1000000000 + 511) / 512);
  CHECK(report["run"]["cost"].get<double>() ==
        Approx(2.5 * report["run"]["device_hours"].get<double>()));
  CHECK(report["hardware"]["calibration"]["points"] == 10);
  CHECK(report["hardware"]["provenance"]["device"].get<std::string>().find("data sheet") !=
        std::string::npos);
  CHECK(report["band"]["relative"].get<double>() == band_of(job).relative);
  CHECK(report["search"]["tried"] == 1);
}

TEST_CASE("what breaks a rule is told without times", "[report]") {
  const Config config = planned_config(R"({"layout": {"tensor": 4, "micro_batch": 3}})");
  const Job job = make_job(config, 4);
  const SearchResult result = search(job, make_layout(config));
  const Candidate& candidate = result.candidates.at(0);
  const Json report = Json::parse(estimate_report({job, result, candidate}));
  CHECK(report["is_feasible"] == false);
  CHECK_FALSE(report.contains("step_seconds"));
  const Json reasons = Json::parse(reasons_report(candidate));
  CHECK(reasons["violations"] == report["violations"]);
  std::vector<std::string> rules;
  for (const Json& violation : reasons["violations"]) rules.push_back(violation["rule"]);
  CHECK(std::count(rules.begin(), rules.end(), "heads") == 1);
  CHECK(std::count(rules.begin(), rules.end(), "batch") == 1);
  for (const Json& fix : reasons["fixes"]) {
    CHECK(fix["layout"].size() == layout_keys({}).size());
    CHECK(fix["step_seconds"].get<double>() > 0);
  }
}

TEST_CASE("a timeline has a lane for each coordinate and link, in which nothing overlaps",
          "[report]") {
  const char* kLayouts[] = {
      R"({"layout": {"pipeline": 2, "data": 2, "micro_batch": 1}})",
      R"({"layout": {"pipeline": 2, "interleave": 2, "micro_batch": 2, "tensor": 2}})",
      R"({"layout": {"pipeline": 4, "schedule": "zero_bubble", "micro_batch": 2}})",
      R"({"layout": {"pipeline": 2, "micro_batch": 4, "recompute": "full"},
          "planner.profile": "megatron-2021", "precision.compute": "fp16"})"};
  for (const char* layout : kLayouts) {
    INFO(layout);
    const Config config = planned_config(layout);
    const LayoutConfig keys = make_layout(config);
    const Job job = make_job(config, keys.tensor * keys.pipeline * keys.data);
    const Estimate one = estimate(job, keys);
    const Json trace = Json::parse(timeline_report(job, one));
    const std::map<int64_t, Lane> lanes = lanes_of(trace);
    const int64_t links = keys.interleave > 1 ? 2 * keys.pipeline : 2 * (keys.pipeline - 1);
    REQUIRE(static_cast<int64_t>(lanes.size()) == keys.pipeline + links);
    const int64_t m = micro_batches(job, keys), boundaries = keys.pipeline * keys.interleave - 1;
    int64_t forwards = 0, messages = 0;
    double end = 0;
    for (const auto& [number, lane] : lanes) {
      double last = 0;
      for (const Json& event : lane.events) {
        const double begin = event["ts"];
        CHECK(begin >= last - 0.002);  // times are rounded to nanoseconds
        last = begin + event["dur"].get<double>();
        const std::string name = event["name"];
        forwards += name.starts_with("forward ") ? 1 : 0;
        messages += !lane.name.starts_with("rank ") ? 1 : 0;
      }
      end = std::max(end, last);
    }
    CHECK(forwards == m * keys.pipeline * keys.interleave);
    CHECK(messages == 2 * m * boundaries);
    CHECK(end * 1e-6 == Approx(one.step_seconds).epsilon(0.02));
    std::map<std::string, int64_t> peaks, ends;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "C") continue;
      const std::string name = event["name"];
      ends[name] = event["args"]["bytes"];
      peaks[name] = std::max(peaks[name], ends[name]);
    }
    REQUIRE(static_cast<int64_t>(peaks.size()) == keys.pipeline);
    for (int64_t i = 0; i < keys.pipeline; ++i) {
      const std::string name = "saved state of rank " + std::to_string(i * keys.tensor * keys.data);
      CHECK(peaks[name] == one.memory[static_cast<size_t>(i)].activations);
      CHECK(ends[name] == 0);
    }
  }
}
