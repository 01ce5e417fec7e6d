// Two layouts side by side, and why one is not the first.
#pragma once

#include <string>

#include "bindings/cli/plan_table.h"

namespace plait::cli {

/// Part by part, with the difference. Without times in % of the first one's step.
std::string compare_text(const PlanJson& a, const PlanJson& b, const PlanView& view);

/// {"a": estimate, "b": estimate, "difference_seconds": …} with names in place of a and b.
std::string compare_json(const std::string& name_a, const PlanJson& a, const std::string& name_b,
                         const PlanJson& b);

/// Where `pinned`, the plan of `layout`, stands in `free`, and what it loses to the first there; or
/// which rules it breaks and what would do.
std::string why_not_text(const std::string& layout, const Planned& free, const Planned& pinned,
                         const PlanView& view);

/// The same: {"why_not": {"layout", "place", "is_tie", "candidate", "first"}}.
std::string why_not_json(const std::string& layout, const Planned& free, const Planned& pinned);

}  // namespace plait::cli
