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
  std::string text;          ///< "recompute=full", "micro_batch=2", "train.global_batch=96"
  int64_t global_batch = 0;  ///< where it changes the batch; 0: it does not
  double step_seconds = 0;   ///< predicted with the fix
  int64_t memory_bytes = 0;  ///< of the fullest rank with the fix
};

struct Candidate {
  Estimate estimate;
  bool is_feasible = false;
  bool is_simulated = false;  ///< else its bound says that it can't be among the best
  bool is_tie = false;        ///< within half the band of the best
  std::vector<Violation> violations;
  std::vector<Fix> fixes;  ///< least predicted step first; of rejected candidates that are shown
  int64_t count = 1;       ///< rejected layouts that this one stands for
};

/// Relative half width of what a prediction means.
struct Band {
  double relative = 0.4;
  bool is_calibrated = false;
  std::vector<std::string> reasons;  ///< what widened it
};
Band band_of(const Job& job, const LayoutConfig& layout);

struct SearchResult {
  std::vector<Candidate> candidates;  ///< feasible ones by step time, memory, text; then rejected
  int64_t tried = 0;                  ///< layouts looked at
  int64_t rejected = 0;               ///< of them
  int64_t simulated = 0;
  int64_t skipped = 0;  ///< feasible, but their bound lies behind the best
};

/// `fixed` holds the layout keys that are pinned; its auto_keys name those that are free. With none
/// free there is one candidate. Stops with `stopped` when asked to.
SearchResult search(const Job& job, const LayoutConfig& fixed);

/// `layout.*` keys without their prefix, in the order of the table: "tensor=2,pipeline=4,…"; those
/// at their defaults are left out but for the degrees.
std::string layout_text(const LayoutConfig& layout);

}  // namespace plait
