#include "engine/planner/fill_layout.h"

#include <optional>
#include <utility>

#include "engine/config/checks.h"
#include "engine/planner/layout_keys.h"
#include "engine/planner/search.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

/// What the nearest rejected layout breaks, and what would pass.
Error no_layout(const SearchResult& result, int64_t world) {
  Error error = Error("argument", "no layout of these keys can be run on these ranks")
                    .with("world", world)
                    .with("tried", result.tried)
                    .subsystem("engine/planner");
  const Candidate* nearest = nullptr;
  for (const Candidate& candidate : result.candidates) {
    if (candidate.violations.empty()) continue;
    if (nearest == nullptr) nearest = &candidate;
    if (candidate.fixes.empty()) continue;
    nearest = &candidate;
    break;
  }
  if (nearest == nullptr) return error;
  Error described = std::move(error)
                        .with("layout", layout_text(nearest->estimate.layout))
                        .with("rule", nearest->violations[0].word)
                        .with("reason", nearest->violations[0].sentence);
  if (nearest->fixes.empty()) return described;
  return std::move(described).with("fix", nearest->fixes[0].text);
}

}  // namespace

FilledLayout fill_layout(const Config& config, int64_t world) {
  const LayoutConfig fixed = make_layout(config);
  if (fixed.auto_keys.empty()) return {config, "", 0};
  const Job job = make_job(with_assumed_hardware(config), world);
  const SearchResult result = search(job, fixed);
  std::optional<Error> broken;
  for (const Candidate& candidate : result.candidates) {
    if (!candidate.is_feasible) continue;
    FilledLayout filled{config, layout_text(candidate.estimate.layout), result.tried};
    try {
      set_layout(candidate.estimate.layout, &filled.config);
      check(filled.config);
      return filled;
    } catch (const Error& error) {
      if (error.word() != "argument") throw;
      if (!broken) broken = error;
    }
  }
  throw broken ? *broken : no_layout(result, world);
}

}  // namespace plait
