// plait convert and plait verify: checkpoints without an engine.
#include <nlohmann/json.hpp>
#include <optional>

#include "bindings/cli/checkpoint_tables.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/operation.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

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
  const Checkpoint checkpoint = open_checkpoint(context, host.options.input);
  const Operation operation = make<Operation>([&](plait_op** out, plait_error** err) {
    return plait_checkpoint_convert(checkpoint.get(), config.get(), host.options.output.c_str(),
                                    out, err);
  });
  print_report(host, finish(host, operation, "converting"));
  drain_logs(host, context);
  return kExitDone;
}

/// All damage of a step a line each, of what the error says about it.
void print_damage(Host& host, const std::string& path, const Failure& failure) {
  const auto error = nlohmann::ordered_json::parse(failure.json())["error"];
  const auto& details = error["details"];
  if (host.options.is_json) {
    host.print(JsonLine().text("path", path).raw("damage", error.dump()).done());
  } else if (details.contains("damage")) {
    for (const auto& one : details["damage"]) {
      host.print("damaged  " + path + "/" + one["file"].get<std::string>() + "  offset " +
                 one["offset"].dump() + "  " + one["what"].get<std::string>());
    }
  } else {
    host.print("damaged  " + path + "  " + failure.message());
  }
}

void verify_one(Host& host, const Context& context, const std::string& path) {
  const Checkpoint checkpoint = open_checkpoint(context, path);
  const Operation operation = make<Operation>([&](plait_op** out, plait_error** err) {
    return plait_checkpoint_verify(checkpoint.get(), host.options.is_full ? 1 : 0, out, err);
  });
  print_report(host, finish(host, operation, "verifying"));
}

/// The steps of a root, or the path itself.
std::vector<std::string> paths_to_verify(const Context& context, const std::string& path) {
  const Report listing = list_steps(context, path);
  std::vector<std::string> paths;
  for (const char* kind : {"steps", "bad"}) {
    for (const Report& step : listing[kind]) {
      paths.push_back(path + "/" + step["name"].get<std::string>());
    }
  }
  if (paths.empty()) paths.push_back(path);
  return paths;
}

}  // namespace

int run_convert_import(Host& host) { return convert(host); }

int run_convert_reshard(Host& host) { return convert(host); }

int run_convert_export(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  const Checkpoint checkpoint = open_checkpoint(context, host.options.input);
  const Operation operation = make<Operation>([&](plait_op** out, plait_error** err) {
    return plait_checkpoint_export_hf(checkpoint.get(), config.get(), host.options.output.c_str(),
                                      out, err);
  });
  print_report(host, finish(host, operation, "exporting"));
  drain_logs(host, context);
  return kExitDone;
}

/// Every step of a root is looked at, whatever is found on the way.
int run_verify(Host& host) {
  const Context context = open_context(host);
  std::optional<Failure> first;
  for (const std::string& path : paths_to_verify(context, host.options.input)) {
    try {
      verify_one(host, context, path);
    } catch (const Failure& failure) {
      if (failure.code() != PLAIT_DATA_LOSS) throw;
      print_damage(host, path, failure);
      if (!first) first = failure;
    }
  }
  if (first) throw *first;
  return kExitDone;
}

}  // namespace plait::cli
