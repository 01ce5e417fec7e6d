// Waiting for work of the library that outlives its call.
#pragma once

#include <string>

#include "bindings/cli/host.h"

namespace plait::cli {

/// Waits for the end with a bar named `label`, or passes a stop on, and returns the JSON report.
/// Throws what the operation failed with; CANCELLED after a stop.
std::string finish(Host& host, const Operation& operation, const std::string& label);

/// The same without passing stops on: the work must end by itself.
std::string wait_for_end(Host& host, const Operation& operation, const std::string& label);

/// Whether it has ended, whatever its end.
bool has_ended(const Operation& operation);

/// A bar of `width` characters, `share` of it filled.
std::string bar(double share, int width = 24);

}  // namespace plait::cli
