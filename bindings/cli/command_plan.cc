// plait plan: layouts for a number of ranks.
#include <algorithm>
#include <cmath>

#include "bindings/cli/commands.h"
#include "bindings/cli/plan_check.h"
#include "bindings/cli/plan_compare.h"
#include "bindings/cli/plan_page.h"
#include "bindings/cli/plan_table.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

int32_t wanted_world(const Host& host) {
  const auto& world = host.options.place.world;
  if (world) return *world;
  throw usage_failure("--world is required: the number of ranks");
}

/// How often the run goes through data.train; 0 where no tokens or no readable file are named.
double epochs_of(Host& host, const Context& context, const Config& config,
                 const PlanJson& candidate) {
  const PlanJson run = candidate.value("run", PlanJson());
  if (!run.is_object() || get_text(config, "data.train").empty()) return 0;
  auto info = sized<plait_dataset_info>();
  try {
    const Dataset train = open_dataset(context, config, "train");
    call([&](plait_error** err) { return plait_dataset_describe(train.get(), &info, err); });
  } catch (const Failure& failure) {
    host.note("plait: epochs are not known: " + failure.message());
    return 0;
  }
  const double samples = number_at(run, "steps") * number_at(candidate["job"], "global_batch");
  return info.samples > 0 ? samples / static_cast<double>(info.samples) : 0;
}

PlanView view_of(const Host& host, const Config& config, const Planned& planned) {
  const PlanJson& first = planned.candidates[0];
  PlanView view;
  view.has_times = host.options.is_uncalibrated || first["band"]["is_calibrated"].get<bool>();
  const int64_t top = get_integer(config, "planner.top");
  for (const PlanJson& one : planned.candidates) {
    if (one["is_feasible"].get<bool>() && view.rows < top) ++view.rows;
  }
  return view;
}

void print_plan(Host& host, const Context& context, const Config& config, const Planned& planned) {
  for (const std::string& report : planned.reports) host.print_json(report);
  if (host.options.is_json) return;
  const PlanView view = view_of(host, config, planned);
  const PlanJson& first = planned.candidates[0];
  std::string text = plan_header(first, view);
  if (planned.has_feasible()) {
    text += plan_tables(planned, view);
    if (view.rows == 1 && view.has_times) text += plan_detail(first);
    if (view.has_times) text += plan_run(first, epochs_of(host, context, config, first));
  } else {
    text += "\nNo layout can be run.";
  }
  host.print(text + plan_footer(planned, view));
}

/// Two layouts that are asked for, each at its best. The exit code.
int compare(Host& host, const Context& context, const Config& config, int32_t world) {
  const std::vector<std::string>& layouts = host.options.compares;
  if (layouts.size() != 2) throw usage_failure("--compare is given twice: two layouts");
  const Planned a = make_planned(context, pinned_config(context, config, layouts[0]), world);
  const Planned b = make_planned(context, pinned_config(context, config, layouts[1]), world);
  const PlanView view = view_of(host, config, a);
  bool is_possible = true;
  for (const Planned* one : {&a, &b}) {
    if (one->has_feasible()) continue;
    is_possible = false;
    host.print_json(one->reports[0]);
    host.print_human("It can't be run: " + word_at(one->candidates[0], "layout_text") + "\n" +
                     reasons_text(one->candidates[0], view, 0));
  }
  if (!is_possible) return kExitFailed;
  host.print_json(compare_json("a", a.candidates[0], "b", b.candidates[0]));
  host.print_human(plan_header(a.candidates[0], view) + "\n" +
                   compare_text(a.candidates[0], b.candidates[0], view));
  const std::string base = host.options.write_path.empty() ? "compare" : host.options.write_path;
  const std::string file_a = base + "-a.json", file_b = base + "-b.json";
  write_file(file_a, run_file(context, config, a, 0));
  write_file(file_b, run_file(context, config, b, 0));
  host.note("to measure them: plait train " + file_a + ", plait train " + file_b);
  return kExitDone;
}

/// Files of the first layout.
void write_files(Host& host, const Context& context, const Config& config, const Planned& planned) {
  const Options& options = host.options;
  if (!options.write_path.empty()) {
    write_file(options.write_path, run_file(context, config, planned, 0));
  }
  if (options.page_path.empty()) return;
  const std::string timeline = make_text([&](plait_bytes** out, plait_error** err) {
    return plait_plan_report(planned.plan.get(), 0, "timeline", out, err);
  });
  write_file(options.page_path, plan_page(planned.candidates[0], timeline));
}

}  // namespace

int run_plan(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  const Options& options = host.options;
  if (!options.check_path.empty() || !options.calibrate_paths.empty()) {
    return run_plan_check(host, context, config);
  }
  free_layout(config);
  if (options.is_print_config) return print_config(host, config), kExitDone;
  const int32_t world = wanted_world(host);
  if (!options.compares.empty()) return compare(host, context, config, world);
  const Planned planned = make_planned(context, config, world);
  if (options.why_not.empty()) {
    print_plan(host, context, config, planned);
  } else {
    const Planned pinned =
        make_planned(context, pinned_config(context, config, options.why_not), world);
    const PlanView view = view_of(host, config, planned);
    host.print_json(why_not_json(options.why_not, planned, pinned));
    host.print_human(plan_header(planned.candidates[0], view) + "\n" +
                     why_not_text(options.why_not, planned, pinned, view));
  }
  drain_logs(host, context);
  if (!planned.has_feasible()) return kExitFailed;
  write_files(host, context, config, planned);
  return kExitDone;
}

}  // namespace plait::cli
