// A layout as the keys layout.* that say it, and hardware where no key says any.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "engine/config/settings.h"

namespace plait {

/// {key, canonical text} of every key layout.*, in the order of the table.
std::vector<std::pair<std::string, std::string>> layout_keys(const LayoutConfig& layout);

/// Writes these keys into `config`.
void set_layout(const LayoutConfig& layout, Config* config);

/// `config` as it is where it describes hardware, or where its device is no CPU. Else with the
/// description of an assumed CPU machine, of which ranks are meant to be compared and no seconds
/// believed: 1 unit, 50 GFLOP/s and 64 GiB for each rank, 64 ranks on a node, 10 GB/s between two.
Config with_assumed_hardware(const Config& config);

}  // namespace plait
