// Plans through the ABI: candidates, ranks, reports, and what is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/capi/host.h"

using host::Err;
using Json = nlohmann::json;

namespace {

using Plan = host::Owned<plait_plan, plait_plan_free>;

/// 4 layers × 64 with 4 heads, 16 sequences of 32 a step; `layout` are members of an object.
std::string small_model(const std::string& layout) {
  return R"({"model":{"family":"gpt2","layers":4,"hidden":64,"heads":4,"vocab_size":256,
    "sequence_length":32},"train":{"global_batch":16},"layout":{)" +
         layout + "}}";
}

constexpr const char* kFree =
    R"("tensor":"auto","pipeline":"auto","data":"auto","micro_batch":"auto","interleave":"auto",
       "schedule":"auto","zero":"auto","sequence_parallel":"auto","recompute":"auto")";

struct PlanRig {
  PlanRig(const std::string& layout, int32_t world)
      : context(host::make_context()), config(host::make_config(context, small_model(layout))) {
    Err err;
    const int32_t code = plait_plan_create(context, config, world, plan.out(), err);
    INFO(err.message());
    REQUIRE(code == PLAIT_OK);
  }

  plait_plan_info at(int64_t index) {
    auto info = host::sized<plait_plan_info>();
    Err err;
    REQUIRE(plait_plan_at(plan, index, &info, err) == PLAIT_OK);
    REQUIRE(info.valid == PLAIT_VALID_ALL);
    return info;
  }

  Json report(int64_t index, const char* kind) {
    host::Bytes bytes;
    Err err;
    const int32_t code = plait_plan_report(plan, index, kind, bytes.out(), err);
    INFO(kind << ": " << err.message());
    REQUIRE(code == PLAIT_OK);
    return Json::parse(bytes.text());
  }

  host::Context context;
  host::Config config;
  Plan plan;
};

}  // namespace

TEST_CASE("A plan of free keys lists candidates, best first and rejected ones last", "[capi]") {
  PlanRig rig(kFree, 4);
  const int64_t count = plait_plan_count(rig.plan);
  REQUIRE(count > 2);
  bool was_rejected = false;
  double before = 0;
  int64_t feasible = 0;
  for (int64_t i = 0; i < count; ++i) {
    const plait_plan_info info = rig.at(i);
    if (info.is_feasible == 0) {
      was_rejected = true;
      CHECK(std::string(info.reason) != "");
      continue;
    }
    ++feasible;
    CHECK(!was_rejected);
    CHECK(std::string(info.reason) == "");
    CHECK(info.tensor * info.pipeline * info.data == 4);
    CHECK(info.step_seconds >= before);
    CHECK(info.memory_bytes > 0);
    CHECK(info.memory_bytes <= info.memory_limit_bytes);
    CHECK(info.tokens_per_second == Approx(16 * 32 / info.step_seconds));
    CHECK(info.bubble_share >= 0);
    CHECK(info.bubble_share < 1);
    CHECK(info.model_flops_share > 0);
    before = info.step_seconds;
  }
  CHECK(feasible >= 5);  // planner.top
}

TEST_CASE("A plan of a fixed layout has the one candidate, with the reason where it can't be run",
          "[capi]") {
  PlanRig good(R"("tensor":2,"data":2,"micro_batch":4)", 4);
  CHECK(plait_plan_count(good.plan) == 1);
  CHECK(good.at(0).is_feasible == 1);
  PlanRig bad(R"("tensor":3,"micro_batch":3)", 3);
  REQUIRE(plait_plan_count(bad.plan) == 1);
  const plait_plan_info info = bad.at(0);
  CHECK(info.is_feasible == 0);
  const std::string reason = info.reason;
  CHECK(reason.find("heads: ") != std::string::npos);
  CHECK(reason.find("batch: ") != std::string::npos);
  const Json reasons = bad.report(0, "reasons");
  CHECK(reasons["violations"].size() >= 2);
  CHECK(bad.report(0, "estimate")["is_feasible"] == false);
  CHECK(bad.report(0, "memory")["coordinates"].empty());
  auto rank = host::sized<plait_rank_info>();
  Err err;
  CHECK(plait_plan_rank_at(bad.plan, 0, 0, &rank, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.message().find("breaks a rule") != std::string::npos);
  host::Bytes bytes;
  CHECK(plait_plan_report(bad.plan, 0, "timeline", bytes.out(), err) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("Every report of a plan is JSON, and they agree", "[capi]") {
  PlanRig rig(R"("tensor":2,"pipeline":2,"micro_batch":2)", 4);
  const plait_plan_info info = rig.at(0);
  const Json estimate = rig.report(0, "estimate");
  CHECK(estimate["step_seconds"].get<double>() == info.step_seconds);
  CHECK(estimate["layout"]["layout.pipeline"] == 2);
  const Json& parts = estimate["parts"];
  double sum = 0;
  for (const char* part : {"forward", "backward", "communication", "optimizer", "bubble", "host"}) {
    sum += parts[part].get<double>();
  }
  CHECK(sum == Approx(info.step_seconds).epsilon(1e-6));
  CHECK(estimate["stages"].size() == 2);
  const Json memory = rig.report(0, "memory");
  CHECK(memory["fullest"]["bytes"] == info.memory_bytes);
  CHECK(memory["limit_bytes"] == info.memory_limit_bytes);
  CHECK(rig.report(0, "reasons")["violations"].empty());
  CHECK(rig.report(0, "schedule")["text"].get<std::string>().find("forward 0 0") !=
        std::string::npos);
  const Json timeline = rig.report(0, "timeline");
  int64_t forwards = 0;
  double end = 0;
  for (const Json& event : timeline["traceEvents"]) {
    if (event["ph"] != "X") continue;
    forwards += event["name"].get<std::string>().starts_with("forward ") ? 1 : 0;
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  CHECK(forwards == 2 * 8);  // stages × micro-batches
  CHECK(end * 1e-6 == Approx(info.step_seconds).epsilon(0.01));
}

TEST_CASE("What is told of ranks adds up to their step and their memory", "[capi]") {
  PlanRig rig(R"("tensor":2,"pipeline":2,"micro_batch":2)", 4);
  const plait_plan_info info = rig.at(0);
  int64_t largest = 0;
  for (int32_t rank = 0; rank < 4; ++rank) {
    auto one = host::sized<plait_rank_info>();
    Err err;
    REQUIRE(plait_plan_rank_at(rig.plan, 0, rank, &one, err) == PLAIT_OK);
    CHECK(one.tensor == rank % 2);
    CHECK(one.pipeline == rank / 2);
    CHECK(one.data == 0);
    CHECK(one.compute_seconds > 0);
    CHECK(one.compute_seconds + one.communication_seconds <= info.step_seconds);
    largest =
        std::max(largest, one.weight_bytes + one.gradient_bytes + one.optimizer_bytes +
                              one.activation_bytes + one.communication_bytes + one.workspace_bytes);
  }
  CHECK(largest == info.memory_bytes);
  auto one = host::sized<plait_rank_info>();
  Err err;
  CHECK(plait_plan_rank_at(rig.plan, 0, 4, &one, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(one.valid == 0);
  CHECK(plait_plan_rank_at(rig.plan, 0, -1, &one, err) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("The keys of a candidate make a configuration that keeps all rules", "[capi]") {
  PlanRig rig(kFree, 4);
  Err err;
  const int64_t count = plait_plan_count(rig.plan);
  for (int64_t i = 0; i < count && rig.at(i).is_feasible != 0; ++i) {
    const host::Config config = host::make_config(rig.context, small_model(kFree));
    REQUIRE(plait_plan_apply(rig.plan, i, config, err) == PLAIT_OK);
    const int32_t code = plait_config_check(config, err);
    INFO(err.message());
    CHECK(code == PLAIT_OK);
    host::Bytes keys;
    REQUIRE(plait_config_dump(config, 0, keys.out(), err) == PLAIT_OK);
    CHECK(keys.text().find("auto") == std::string::npos);
    CHECK(Json::parse(keys.text())["layout.tensor"] == rig.at(i).tensor);
  }
}

TEST_CASE("Wrong calls on plans are refused by name", "[capi]") {
  PlanRig rig(R"("data":2)", 2);
  Err err;
  auto info = host::sized<plait_plan_info>();
  CHECK(plait_plan_at(rig.plan, 1, &info, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(info.valid == 0);
  CHECK(plait_plan_at(rig.plan, -1, &info, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_plan_apply(rig.plan, 1, rig.config, err) == PLAIT_INVALID_ARGUMENT);
  host::Bytes bytes;
  CHECK(plait_plan_report(rig.plan, 0, "weather", bytes.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.message().find("kind") != std::string::npos);
  CHECK(plait_plan_report(rig.plan, 0, nullptr, bytes.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_plan_report(rig.plan, 7, "memory", bytes.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_plan_count(nullptr) == 0);
  Plan none;
  CHECK(plait_plan_create(rig.context, rig.config, 0, none.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(none == nullptr);
  const host::Config empty = host::make_config(rig.context);
  CHECK(plait_plan_create(rig.context, empty, 2, none.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.message().find("model.") != std::string::npos);
}
