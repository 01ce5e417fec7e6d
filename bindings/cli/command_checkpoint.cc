// plait convert and plait verify: checkpoints without an engine.
#include <nlohmann/json.hpp>

#include "bindings/cli/commands.h"
#include "bindings/cli/operation.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

Checkpoint open_input(const Host& host, const Context& context) {
  return make<Checkpoint>([&](plait_checkpoint** out, plait_error** err) {
    return plait_checkpoint_open(context.get(), host.options.input.c_str(), out, err);
  });
}

/// A report of a few fields: the JSON line, or its fields one a line.
void print_report(Host& host, const std::string& report) {
  host.print_json(report);
  const auto fields = nlohmann::ordered_json::parse(report);
  for (const auto& [name, value] : fields.items()) {
    host.print_human(name + "  " + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
}

/// To a checkpoint of Plait's own under a root, in the layout of the configuration.
int convert(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  const Checkpoint checkpoint = open_input(host, context);
  const Operation operation = make<Operation>([&](plait_op** out, plait_error** err) {
    return plait_checkpoint_convert(checkpoint.get(), config.get(), host.options.output.c_str(),
                                    out, err);
  });
  print_report(host, finish(host, operation, "converting"));
  drain_logs(host, context);
  return kExitDone;
}

}  // namespace

int run_convert_import(Host& host) { return convert(host); }

int run_convert_reshard(Host& host) { return convert(host); }

int run_convert_export(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  const Checkpoint checkpoint = open_input(host, context);
  const Operation operation = make<Operation>([&](plait_op** out, plait_error** err) {
    return plait_checkpoint_export_hf(checkpoint.get(), config.get(), host.options.output.c_str(),
                                      out, err);
  });
  print_report(host, finish(host, operation, "exporting"));
  drain_logs(host, context);
  return kExitDone;
}

int run_verify(Host& host) {
  const Context context = open_context(host);
  const Checkpoint checkpoint = open_input(host, context);
  const Operation operation = make<Operation>([&](plait_op** out, plait_error** err) {
    return plait_checkpoint_verify(checkpoint.get(), host.options.is_full ? 1 : 0, out, err);
  });
  print_report(host, finish(host, operation, "verifying"));
  return kExitDone;
}

}  // namespace plait::cli
