// plait plan --check and --calibrate: what was predicted against what runs measured.
#pragma once

#include "bindings/cli/host.h"

namespace plait::cli {

/// `plan CONFIG --check METRICS` (options.check_path), or `plan CONFIG --calibrate METRICS…`
/// (options.calibrate_paths): the files of `train --metrics`, whose first line holds a run's
/// configuration. `config` is CONFIG with --hardware and --set on top; its layout.* are as they
/// stand there. The exit code.
int run_plan_check(Host& host, const Context& context, const Config& config);

}  // namespace plait::cli
