// Why a layout can't be run: rules between its degrees, the model, the batch and the memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/planner/estimate.h"
#include "engine/planner/job.h"

namespace plait {

/// One violated rule. `word`: devices, heads, kv_heads, feed_forward, layers, batch, interleave,
/// sequence, schedule, canonical, memory.
struct Violation {
  const char* word = "";
  std::string sentence;           ///< with both numbers
  int64_t first = 0, second = 0;  ///< what was asked, and what it has to fit
};

/// All violated rules but memory; empty: the layout can be priced.
std::vector<Violation> violated_rules(const Job& job, const LayoutConfig& layout);

/// Whether `tensor` ranks can share every layer: what of the rules depends on that degree alone.
bool splits_evenly(const Job& job, int64_t tensor);

/// Whether the fullest rank fits; adds the violation where not (null: to nothing).
bool fits(const Job& job, const Estimate& estimate, std::vector<Violation>* violations);

}  // namespace plait
