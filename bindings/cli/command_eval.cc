// plait eval: loss and perplexity on the evaluation data.
#include <cmath>

#include "bindings/cli/commands.h"
#include "bindings/cli/engine_run.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"

namespace plait::cli {

int run_eval(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  prefer_weights_only(config);
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  call([&](plait_error** err) { return plait_config_check(config.get(), err); });
  const Place place = find_place(host, config);
  const Group group = make_group(context, config, place);
  const Dataset held_out = open_dataset(context, config, "evaluate");
  MetricsLines lines(host, place.rank != 0);
  const Engine engine = make_engine(host, group, config);
  load_state(engine, host.options.load_path);
  attach(engine, "evaluate", held_out);
  drain_logs(host, context);

  host.is_started = true;
  if (host.stop.is_requested()) return kExitStopped;
  const Stopping stopping(&host.stop, engine.get());
  auto metrics = sized<plait_metrics>();
  if (!evaluate(engine, &metrics)) return kExitStopped;
  lines.write(evaluation_line(metrics.step, metrics));
  const double perplexity = std::exp(metrics.loss);
  host.print_json(JsonLine().number("perplexity", perplexity).done());
  host.print_human("loss        " + rounded(metrics.loss, 6) + " nats per token");
  host.print_human("perplexity  " + rounded(perplexity, 6));
  host.print_human("targets     " + counted(metrics.targets) + " in " +
                   duration(metrics.step_seconds));
  return kExitDone;
}

}  // namespace plait::cli
