// A step of a plan as a page for browsers: one file, nothing is fetched.
#pragma once

#include <string>

#include "bindings/cli/plan_candidates.h"

namespace plait::cli {

/// `candidate` is its estimate, `timeline` its report "timeline". Of a very long step the beginning
/// alone is drawn, which the page says.
std::string plan_page(const PlanJson& candidate, const std::string& timeline);

/// Draws the events of the page; a script without a frame around it.
extern const char* const kPlanPageScript;

}  // namespace plait::cli
