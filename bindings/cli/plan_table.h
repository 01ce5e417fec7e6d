// A plan as text for people.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/plan_candidates.h"
#include "bindings/cli/text_table.h"

namespace plait::cli {

/// How numbers are shown: seconds and what follows from them only where they are meant.
struct PlanView {
  bool has_times = true;
  int64_t rows = 0;  ///< feasible candidates that are shown
};

/// "41.23 s", "12.3 ms".
std::string step_time(double seconds);
/// 0.1234 as "12.3".
std::string percent(double share);
/// Units of 2³⁰ bytes, without their name: "75.5".
std::string gibibytes(double bytes);
/// "label       text" and a line end; further lines of the text stand behind the label.
std::string labelled(const std::string& label, const std::string& text);
/// The texts of a list.
std::string joined(const PlanJson& list, const char* between);
/// "1f1b", "interleaved", …, with what a list of layers adds.
std::string schedule_word(const PlanJson& layout);

/// What is planned, on what, from where its numbers come, and how far they are meant.
std::string plan_header(const PlanJson& first, const PlanView& view);

/// Feasible candidates: their layouts and rates, where a step's time goes, memory and wires.
std::string plan_tables(const Planned& planned, const PlanView& view);

/// One candidate part by part.
std::string plan_detail(const PlanJson& candidate);

/// How long a whole run takes, with failures; empty where no tokens are asked for.
std::string plan_run(const PlanJson& candidate, double epochs);

/// Rejected candidates by reason, what was not simulated, what is not modelled.
std::string plan_footer(const Planned& planned, const PlanView& view);

/// The rules that a rejected candidate breaks, and what would do.
std::string reasons_text(const PlanJson& candidate, const PlanView& view, double best_seconds);

}  // namespace plait::cli
