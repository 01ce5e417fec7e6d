// plait plan: layouts for a number of ranks.
#include "bindings/cli/commands.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

std::string candidate_json(const plait_plan_info& info) {
  JsonLine line;
  line.number("feasible", info.is_feasible)
      .number("tensor", info.tensor)
      .number("pipeline", info.pipeline)
      .number("data", info.data)
      .number("interleave", info.interleave)
      .number("zero", info.zero)
      .number("micro_batch", info.micro_batch)
      .number("memory_bytes", info.memory_bytes)
      .number("memory_limit_bytes", info.memory_limit_bytes)
      .number("step_seconds", info.step_seconds)
      .number("tokens_per_second", info.tokens_per_second)
      .number("bubble_share", info.bubble_share)
      .number("model_flops_share", info.model_flops_share);
  return line.text("reason", info.reason).done();
}

std::string candidate_text(const plait_plan_info& info) {
  std::string text = "tensor " + std::to_string(info.tensor) + "  pipeline " +
                     std::to_string(info.pipeline) + "  data " + std::to_string(info.data) +
                     "  micro-batch " + std::to_string(info.micro_batch) + "  memory " +
                     byte_size(static_cast<double>(info.memory_bytes));
  if (info.is_feasible == 0) return text + "  rejected: " + info.reason;
  return text + "  step " + duration(info.step_seconds) + "  tokens/s " +
         rounded(info.tokens_per_second) + "  bubble " + rounded(info.bubble_share, 3);
}

}  // namespace

int run_plan(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  const Place place = find_place(host, config);
  const Plan plan = make<Plan>([&](plait_plan** out, plait_error** err) {
    return plait_plan_create(context.get(), config.get(), place.world, out, err);
  });
  bool has_feasible = false;
  const int64_t count = plait_plan_count(plan.get());
  for (int64_t i = 0; i < count; ++i) {
    auto info = sized<plait_plan_info>();
    call([&](plait_error** err) { return plait_plan_at(plan.get(), i, &info, err); });
    has_feasible = has_feasible || info.is_feasible != 0;
    host.print_json(candidate_json(info));
    host.print_human(candidate_text(info));
  }
  return has_feasible ? kExitDone : kExitFailed;
}

}  // namespace plait::cli
