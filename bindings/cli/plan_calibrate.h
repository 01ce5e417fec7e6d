// plait plan --calibrate: constants of a description of hardware, fitted to runs.
#pragma once

#include "bindings/cli/host.h"

namespace plait::cli {

/// options.calibrate_paths are metrics files; the fragment goes to stdout, residuals to stderr. The
/// exit code.
int run_plan_calibrate(Host& host, const Context& context, const Config& config);

}  // namespace plait::cli
