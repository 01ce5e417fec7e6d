// Layouts that the planner fills in where keys are `auto`.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/config.h"

namespace plait {

/// What the planner put in the place of `auto`.
struct FilledLayout {
  Config config;       ///< without a key layout.* that is `auto`
  std::string layout;  ///< as layout_text has it; empty: no key was `auto`
  int64_t tried = 0;   ///< layouts looked at
};

/// Replaces every `auto` of layout.* by what the best feasible layout for `world` ranks has whose
/// configuration keeps all rules. A pure function: processes with one configuration come to one
/// layout. Throws `argument` for what make_job refuses, and where no layout is feasible: the rule
/// that the nearest one breaks (fields layout, rule, fix).
FilledLayout fill_layout(const Config& config, int64_t world);

}  // namespace plait
