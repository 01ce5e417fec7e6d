// The `plait` program: a host of the library like any other.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "bindings/cli/command_line.h"

namespace {

using plait::cli::Failure;
using plait::cli::Host;
using plait::cli::Request;

int run(Host& host, const Request& request) {
  try {
    if (request.command == nullptr) return host.print(request.text), plait::cli::kExitDone;
    const int code = request.command(host);
    return host.stop.count() > 1 ? plait::cli::kExitAborted : code;
  } catch (const Failure& failure) {
    host.report(failure);
    return host.stop.count() > 1 ? plait::cli::kExitAborted : failure.exit_code(host.is_started);
  } catch (const std::exception& error) {
    host.report(Failure(PLAIT_INTERNAL, "invariant", error.what()));
    return plait::cli::kExitFailed;
  }
}

}  // namespace

int main(int count, char** arguments) {
  Request request;
  try {
    request = plait::cli::parse_command_line(count, arguments);
  } catch (const Failure& failure) {
    // The command line could not be read as a whole, but how to answer may stand in it.
    request.options.is_json = std::any_of(arguments, arguments + count, [](const char* argument) {
      return std::string_view(argument) == "--json";
    });
    Host(request.options).report(failure);
    return plait::cli::kExitUsage;
  }
  Host host(request.options);
  return run(host, request);
}
