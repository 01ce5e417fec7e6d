// Candidates of a job: all layouts that its free keys admit, best first, rejected ones after them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/planner/estimate.h"
#include "engine/planner/rules.h"

namespace plait {

/// A change of keys that makes a rejected layout pass, and what it costs.
struct Fix {
  LayoutConfig layout;
  /// What changes, in the form of layout_text: "recompute=full", "tensor=2,data=2,micro_batch=2",
  /// "train.global_batch=96".
  std::string text;
  int64_t global_batch = 0;  ///< where it changes the batch; 0: it does not
  double step_seconds = 0;   ///< predicted with the fix
  int64_t memory_bytes = 0;  ///< of the fullest rank with the fix
};

struct Candidate {
  /// Of a layout that breaks a rule other than memory: `layout` alone.
  Estimate estimate;
  bool is_feasible = false;
  bool is_tie = false;                ///< within half the band of the best, and not alone there
  std::vector<std::string> warnings;  ///< of feasible ones, as layout_warnings has them
  std::vector<Violation> violations;  ///< all of them; of memory where no other rule is broken
  std::vector<Fix> fixes;  ///< least predicted step first, those that change the batch at the end
  int64_t count = 1;       ///< rejected layouts that this one stands for
};

/// Relative half width of what a prediction of the job means.
struct Band {
  double relative = 0.4;
  bool is_calibrated = false;
  std::vector<std::string> reasons;  ///< what widened it
};
Band band_of(const Job& job);

/// Why the estimate of this layout may be worse than the band says: one sentence for each reason.
std::vector<std::string> layout_warnings(const Job& job, const Estimate& estimate);

struct SearchResult {
  /// Feasible ones by step time, memory, text: the job.top best and all that tie with the best, so
  /// that a search for more begins with the same. Then one rejected layout for each reason (a set
  /// of broken rules), the reason with the fewest rules first.
  std::vector<Candidate> candidates;
  int64_t tried = 0;      ///< layouts looked at
  int64_t rejected = 0;   ///< of them
  int64_t simulated = 0;  ///< feasible ones whose schedules were walked
  int64_t skipped = 0;    ///< feasible, but slower than all that `candidates` holds
  /// Where nothing is feasible, whatever the layout: the smallest larger world that has a feasible
  /// layout; 0: none was found, or there was no need to look.
  int64_t smallest_world = 0;
};

/// `fixed` holds the layout keys that are pinned; its auto_keys name those that are free. With none
/// free there is one candidate. Pure.
SearchResult search(const Job& job, const LayoutConfig& fixed);

/// `layout.*` keys without their prefix, in the order of the table: "tensor=2,pipeline=4,…"; those
/// at their defaults are left out but for the degrees.
std::string layout_text(const LayoutConfig& layout);

}  // namespace plait
