// Plans as the program makes them, and their candidates as the reports "estimate" tell them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/handles.h"

namespace plait::cli {

using PlanJson = nlohmann::ordered_json;

/// A plan with what is told of each candidate: feasible ones, best first, then rejected ones.
struct Planned {
  Plan plan;
  std::vector<std::string> reports;  ///< JSON text of each candidate
  std::vector<PlanJson> candidates;  ///< the same, read

  bool has_feasible() const { return !candidates.empty() && candidates[0]["is_feasible"]; }
};

/// `config` with its keys layout.* as they are: pinned, or `auto`.
Planned make_planned(const Context& context, const Config& config, int32_t world);

/// A copy of `config`.
Config copied_config(const Context& context, const Config& config);

/// Every key layout.* that is not set becomes `auto`.
void free_layout(const Config& config);

/// A copy of `config` with the keys of a layout (`tensor=8,pipeline=12`); a usage failure when it
/// is no such list.
Config pinned_config(const Context& context, const Config& config, const std::string& layout);

/// A configuration that `plait train` takes: what is set in `config` but for keys of hardware and
/// planner, and the layout of candidate `index`.
std::string run_file(const Context& context, const Config& config, const Planned& planned,
                     int64_t index);

/// A number of an object, 0 where it has none; a text, empty where it has none.
double number_at(const PlanJson& object, const char* name);
std::string word_at(const PlanJson& object, const char* name);

/// Writes a text file; failures name it.
void write_file(const std::string& path, const std::string& text);

}  // namespace plait::cli
