// The sub-commands. Each returns an exit code or throws a Failure.
#pragma once

#include "bindings/cli/host.h"

namespace plait::cli {

int run_train(Host& host);
int run_eval(Host& host);
int run_generate(Host& host);
int run_tokenize(Host& host);
int run_inspect(Host& host);
int run_verify(Host& host);
int run_convert_export(Host& host);
int run_convert_import(Host& host);
int run_convert_reshard(Host& host);
int run_plan(Host& host);
int run_measure_links(Host& host);
int run_trace(Host& host);
/// `help keys [PREFIX]`.
int run_help_keys(Host& host);
/// --version.
int run_version(Host& host);

}  // namespace plait::cli
