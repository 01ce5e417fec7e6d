// The planner's entry points. A plan is made once and never changes, but for the times of rejected
// candidates, which are made when somebody asks for them.
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/config.h"
#include "capi/src/context.h"
#include "capi/src/guard.h"
#include "capi/src/handle.h"
#include "capi/src/sized_struct.h"
#include "engine/comm/mesh.h"
#include "engine/planner/layout_keys.h"
#include "engine/planner/report.h"
#include "engine/planner/search.h"
#include "plait/plait.h"

namespace {

/// "heads: …; batch: …; fix: …", empty for a candidate that can be run.
std::string reason_of(const plait::Candidate& candidate) {
  std::string reason;
  for (const plait::Violation& violation : candidate.violations) {
    reason +=
        (reason.empty() ? "" : "; ") + std::string(violation.word) + ": " + violation.sentence;
  }
  if (!candidate.fixes.empty()) reason += "; fix: " + candidate.fixes[0].text;
  return reason;
}

}  // namespace

struct plait_plan final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kPlan;
  plait_plan(plait::Ref<plait_context> owner, plait::Job made_for, plait::SearchResult found)
      : Handle(kKind),
        context(std::move(owner)),
        job(std::move(made_for)),
        result(std::move(found)) {
    for (const plait::Candidate& candidate : result.candidates) {
      reasons.push_back(reason_of(candidate));
    }
  }

  int64_t count() const { return static_cast<int64_t>(result.candidates.size()); }

  const plait::Candidate& at(int64_t index) const {
    plait::check_index(index, count());
    return result.candidates[static_cast<size_t>(index)];
  }

  /// A candidate of which more than its layout is known: it breaks no rule but that of memory.
  const plait::Candidate& priced_at(int64_t index) const {
    const plait::Candidate& candidate = at(index);
    if (!candidate.estimate.memory.empty()) return candidate;
    throw plait::Error("argument", "this layout breaks a rule, so that no rank can run it")
        .with("index", index)
        .with("reason", reasons[static_cast<size_t>(index)])
        .subsystem("capi");
  }

  const plait::Estimate& timed_at(int64_t index) const {
    const plait::Candidate& candidate = priced_at(index);
    if (candidate.estimate.step_seconds > 0) return candidate.estimate;
    const std::lock_guard lock(mutex);
    const auto known = timed.find(index);
    if (known != timed.end()) return known->second;
    return timed.emplace(index, plait::timed_estimate(job, candidate)).first->second;
  }

  const plait::Ref<plait_context> context;
  const plait::Job job;
  const plait::SearchResult result;
  std::vector<std::string> reasons;
  mutable std::mutex mutex;
  mutable std::map<int64_t, plait::Estimate> timed;  ///< guarded by the mutex
};

using plait::guard;
using plait::Held;

namespace {

plait_plan_info describe(const plait_plan& plan, int64_t index) {
  const plait::Candidate& candidate = plan.at(index);
  const plait::Estimate& estimate = candidate.estimate;
  plait_plan_info info{};
  info.valid = PLAIT_VALID_ALL;
  info.is_feasible = candidate.is_feasible ? 1 : 0;
  info.tensor = estimate.layout.tensor;
  info.pipeline = estimate.layout.pipeline;
  info.data = estimate.layout.data;
  info.interleave = estimate.layout.interleave;
  info.zero = estimate.layout.zero;
  info.micro_batch = estimate.layout.micro_batch;
  if (!estimate.memory.empty()) {
    info.memory_bytes = estimate.memory[static_cast<size_t>(estimate.fullest)].total();
  }
  info.memory_limit_bytes = plan.job.hardware.memory_limit();
  info.step_seconds = estimate.step_seconds;
  info.tokens_per_second = estimate.tokens_per_second;
  info.bubble_share = estimate.bubble_share;
  info.model_flops_share = estimate.model_share;
  info.reason = plan.reasons[static_cast<size_t>(index)].c_str();
  return info;
}

plait_rank_info describe_rank(const plait_plan& plan, int64_t index, int64_t rank) {
  const plait::Estimate& estimate = plan.timed_at(index);
  const plait::LayoutConfig& layout = estimate.layout;
  plait::check_range(rank, 0, layout.tensor * layout.pipeline * layout.data - 1, "rank");
  plait_rank_info info{};
  info.valid = PLAIT_VALID_ALL;
  const plait::Coordinates place =
      plait::Mesh(layout.tensor, layout.pipeline, layout.data).coordinates(rank);
  info.tensor = place.tensor;
  info.pipeline = place.pipeline;
  info.data = place.data;
  const auto coordinate = static_cast<size_t>(info.pipeline);
  const plait::RankMemory& memory = estimate.memory[coordinate];
  info.weight_bytes = memory.weights;
  info.gradient_bytes = memory.gradients;
  info.optimizer_bytes = memory.optimizer;
  info.activation_bytes = memory.activations;
  info.communication_bytes = memory.communication;
  info.workspace_bytes = memory.workspace;
  const plait::StepParts& parts = estimate.coordinates[coordinate];
  info.compute_seconds = parts.forward + parts.backward + parts.optimizer;
  info.communication_seconds = parts.communication();
  info.bubble_share = parts.bubble / estimate.step_seconds;
  return info;
}

std::string make_report(const plait_plan& plan, int64_t index, const std::string& kind) {
  if (kind == "reasons") return plait::reasons_report(plan.at(index));
  if (kind == "estimate") {
    return plait::estimate_report({plan.job, plan.result, plan.at(index)});
  }
  if (kind == "memory") return plait::memory_report(plan.job, plan.at(index));
  if (kind == "schedule") {
    return plait::schedule_report(plan.job, plan.priced_at(index).estimate.layout);
  }
  return plait::timeline_report(plan.job, plan.timed_at(index));
}

}  // namespace

int32_t plait_plan_create(plait_context* context, const plait_config* config, int32_t world,
                          plait_plan** plan, plait_error** err) {
  const plait::HandleOut<plait_plan> out(plan, "plan");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    const plait::Config copy = plait::with_assumed_hardware(plait::copy_config(config, "config"));
    plait::check_range(world, 1, INT32_MAX, "world");
    plait::Job job = plait::make_job(copy, world);
    plait::SearchResult result = plait::search(job, plait::make_layout(copy));
    out.set(new plait_plan(held.ref(), std::move(job), std::move(result)));
  });
}

int64_t plait_plan_count(const plait_plan* plan) {
  if (!plait::may_answer() || !plait::is_live(plan)) return 0;
  return plan->count();
}

int32_t plait_plan_at(const plait_plan* plan, int64_t index, plait_plan_info* info,
                      plait_error** err) {
  plait::StructOut<plait_plan_info> out(info, "plait_plan_info");
  return guard(err, [&] {
    out.check();
    const Held<plait_plan> held(plan, "plan");
    out.write(describe(*held, index));
  });
}

int32_t plait_plan_rank_at(const plait_plan* plan, int64_t index, int32_t rank,
                           plait_rank_info* info, plait_error** err) {
  plait::StructOut<plait_rank_info> out(info, "plait_rank_info");
  return guard(err, [&] {
    out.check();
    const Held<plait_plan> held(plan, "plan");
    out.write(describe_rank(*held, index, rank));
  });
}

int32_t plait_plan_report(const plait_plan* plan, int64_t index, const char* kind,
                          plait_bytes** report, plait_error** err) {
  const plait::BytesOut out(report, "report");
  return guard(err, [&] {
    out.check();
    const Held<plait_plan> held(plan, "plan");
    const std::string name = plait::text_argument(kind, "kind");
    plait::check_choice(name, "reasons estimate memory schedule timeline", "kind");
    out.set(make_report(*held, index, name));
  });
}

int32_t plait_plan_apply(const plait_plan* plan, int64_t index, plait_config* config,
                         plait_error** err) {
  return guard(err, [&] {
    const Held<plait_plan> held(plan, "plan");
    const Held<plait_config> target(config, "config", plait::Use::kExclusive);
    plait::set_layout(held->at(index).estimate.layout, &target->value);
  });
}

void plait_plan_free(plait_plan* plan) {
  plait::guard_void([&] { plait::free_handle(plan); });
}
