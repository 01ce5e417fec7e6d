// The planner's entry points. The planner itself is not in this build: creating a plan says so, and
// as no plan can exist, every other function finds a bad handle.
#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/config.h"
#include "capi/src/context.h"
#include "capi/src/guard.h"
#include "capi/src/handle.h"
#include "capi/src/sized_struct.h"
#include "plait/plait.h"

struct plait_plan final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kPlan;
};

using plait::guard;
using plait::Held;

namespace {

[[noreturn]] void refuse() {
  throw plait::not_built("planner", "the planner is not in this build");
}

}  // namespace

int32_t plait_plan_create(plait_context* context, const plait_config* config, int32_t world,
                          plait_plan** plan, plait_error** err) {
  const plait::HandleOut<plait_plan> out(plan, "plan");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    const plait::Config copy = plait::copy_config(config, "config");
    plait::check_range(world, 1, INT32_MAX, "world");
    refuse();
  });
}

int64_t plait_plan_count(const plait_plan*) { return 0; }

int32_t plait_plan_at(const plait_plan* plan, int64_t, plait_plan_info* info, plait_error** err) {
  plait::StructOut<plait_plan_info> out(info, "plait_plan_info");
  return guard(err, [&] {
    out.check();
    const Held<plait_plan> held(plan, "plan");
    refuse();
  });
}

int32_t plait_plan_rank_at(const plait_plan* plan, int64_t, int32_t, plait_rank_info* info,
                           plait_error** err) {
  plait::StructOut<plait_rank_info> out(info, "plait_rank_info");
  return guard(err, [&] {
    out.check();
    const Held<plait_plan> held(plan, "plan");
    refuse();
  });
}

int32_t plait_plan_report(const plait_plan* plan, int64_t, const char* kind, plait_bytes** report,
                          plait_error** err) {
  const plait::BytesOut out(report, "report");
  return guard(err, [&] {
    out.check();
    const Held<plait_plan> held(plan, "plan");
    plait::check_choice(plait::text_argument(kind, "kind"),
                        "reasons estimate memory schedule timeline", "kind");
    refuse();
  });
}

int32_t plait_plan_apply(const plait_plan* plan, int64_t, plait_config* config, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_plan> held(plan, "plan");
    const Held<plait_config> target(config, "config", plait::Use::kExclusive);
    refuse();
  });
}

void plait_plan_free(plait_plan* plan) {
  plait::guard_void([&] { plait::free_handle(plan); });
}
