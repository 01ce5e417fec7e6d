// The layouts that a search looks at; private to this room.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/planner/job.h"
#include "kernels/base/function_ref.h"

namespace plait {

/// Ascending.
std::vector<int64_t> divisors(int64_t number);

/// Whether `key` ("layout.tensor") is one of those that a search fills in.
bool is_free(const LayoutConfig& fixed, std::string_view key);

/// Calls `visit` for every layout that the free keys of `fixed` admit and that is worth a look.
/// Where a free degree has no value that keeps its rules, it takes those that break them, so that
/// at least one layout is visited. The layouts have no auto_keys. ZeRO 2 is among them with one
/// micro-batch; with more it is for the caller to try where ZeRO 1 does not fit.
void enumerate_layouts(const Job& job, const LayoutConfig& fixed,
                       FunctionRef<void(const LayoutConfig&)> visit);

}  // namespace plait
