// plait measure-links: what links and cores do, as a description of hardware for the planner.
#include "bindings/cli/commands.h"
#include "bindings/cli/session.h"

namespace plait::cli {
namespace {

/// The fragment; empty when a stop was asked for, here or in another process.
std::string measure(Host& host, const Group& group) {
  if (host.stop.is_requested()) return "";
  host.stop.set_group(group.get());
  std::string fragment;
  try {
    fragment = make_text([&](plait_bytes** out, plait_error** err) {
      return plait_group_measure(group.get(), host.options.what.c_str(), -1, out, err);
    });
  } catch (const Failure& failure) {
    host.stop.set_group(nullptr);
    if (failure.code() != PLAIT_ABORTED || !host.stop.is_requested()) throw;
  }
  host.stop.set_group(nullptr);
  return fragment;
}

}  // namespace

int run_measure_links(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  const Place place = find_place(host, config);
  const Group group = make_group(context, config, place);
  const std::string fragment = measure(host, group);
  if (fragment.empty()) {
    host.note("plait: stopped; nothing was measured");
    return kExitStopped;
  }
  if (place.rank == 0) host.print(fragment);
  return kExitDone;
}

}  // namespace plait::cli
