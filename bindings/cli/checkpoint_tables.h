// Reports of checkpoints as tables for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/describe.h"
#include "bindings/cli/host.h"

namespace plait::cli {

using Report = nlohmann::ordered_json;

/// Any of the three kinds of path; see plait_checkpoint_open.
Checkpoint open_checkpoint(const Context& context, const std::string& path);

/// plait_checkpoint_list of a directory.
Report list_steps(const Context& context, const std::string& directory);

/// Steps and what looks like one under a root, newest first. `listing`: plait_checkpoint_list.
void print_listing(Host& host, const Report& listing);

/// What plait_checkpoint_report says of a step of Plait's own, or of a Hugging Face directory.
void print_report_table(Host& host, const Report& report);

/// Tensors a line each, then properties, then the number of parameters.
void print_entries(Host& host, const std::vector<Entry>& entries);

}  // namespace plait::cli
