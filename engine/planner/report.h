// What is said of a candidate: JSON of its estimate, its memory and the reasons against it, and its
// step as a timeline. Numbers are unrounded; seconds, bytes, FLOP.
#pragma once

#include <cstdint>
#include <string>

#include "engine/planner/search.h"

namespace plait {

/// A candidate of a search, for reports. Borrows all three; `candidate` breaks no rule but memory
/// where times are asked for.
struct ReportSource {
  const Job& job;
  const SearchResult& result;
  const Candidate& candidate;
};

/// The estimate with its times, which a candidate that was rejected for its memory lacks.
Estimate timed_estimate(const Job& job, const Candidate& candidate);

/// One object with everything that is known: layout, job, times by part, coordinate and stage,
/// rates, bytes on wires, memory, band, hardware with its provenance, the whole run, the search.
std::string estimate_report(const ReportSource& source);

/// {"is_feasible", "count", "violations": […], "fixes": […]}: every broken rule with both numbers,
/// and changes that would pass.
std::string reasons_report(const Candidate& candidate);

/// Bytes by coordinate and category, the limit, and the fullest rank.
std::string memory_report(const Job& job, const Candidate& candidate);

/// {"text", "grid"} of the schedule, as the engine reports its own.
std::string schedule_report(const Job& job, const LayoutConfig& layout);

/// The step as a Chrome trace: a lane for each coordinate (of the ranks of a coordinate, which all
/// do the same, the one at tensor 0 and data 0) with what takes time, a lane for each direction of
/// each link with its messages, and the bytes of saved state on each coordinate as they rise and
/// fall. Names and categories are those of an engine's traces.
std::string timeline_report(const Job& job, const Estimate& estimate);

/// Throws `too_large` where a schedule has more passes than texts and timelines hold.
void check_shown_passes(const Job& job, const LayoutConfig& layout);

}  // namespace plait
