// Changes that make a rejected layout pass; private to this room.
#pragma once

#include <string>
#include <vector>

#include "engine/planner/search.h"

namespace plait {

/// What `to` has and `from` has not, in the form of layout_text, also where it is a default.
std::string layout_changes(const LayoutConfig& from, const LayoutConfig& to);

/// The layouts and batch sizes that keep all rules and fit into memory after one change of
/// `layout`, which breaks `violations`; where none does, after two. A change of one degree takes
/// along another one that makes up for it. At most three that keep the batch, least predicted step
/// first, then at most two that change it, nearest first.
std::vector<Fix> find_fixes(const Job& job, const LayoutConfig& layout,
                            const std::vector<Violation>& violations);

/// A world above the job's, nearly the smallest, in which some layout fits into memory: of whole
/// nodes, or of ranks on the first one. 0: none up to a million ranks, or up to the one node that
/// is described.
int64_t smallest_larger_world(const Job& job);

}  // namespace plait
