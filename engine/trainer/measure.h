// Measures what the links and cores under a group of ranks do, as a description of hardware for the
// planner.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "engine/comm/world.h"
#include "engine/config/config.h"
#include "engine/trainer/engine.h"
#include "kernels/base/env.h"
#include "kernels/device/thread_pool.h"

namespace plait {

enum class MeasureScope { kLinks, kCompute, kAll };

/// "links", "compute", "all".
const char* measure_scope_name(MeasureScope scope);

struct MeasureOptions {
  Env* env = nullptr;  ///< outlives the call
  ThreadHooks hooks;
  World* world = nullptr;  ///< complete; no engine is on it
  /// Any thread sets it: the measurement ends at the next point where all ranks agree.
  const std::atomic<bool>* is_stop_wanted = nullptr;
};

/// Collective. All local ranks work at once, as in a step, on threads of their own; their memory is
/// given back at the end. `*fragment` becomes {"hardware": {…}}, the same text in every process:
/// links of every group shape that a layout of this world can have, and transfers; products,
/// attention and streams of the model in `config` at several tensor degrees and micro-batches, or
/// products of common sizes where it names none. A world of one rank has no links.
///
/// The stop, and the end of `timeout_ms` (−1: none), take effect at a point that all ranks agree
/// on: this process throws `aborted` or `deadline`, both with nothing changed, and kStopped comes
/// back in the others. Where the others do not come to that point the group is lost. Throws
/// `mismatch` when processes measure different things, `not_built` for a device that this build
/// does not know, `missing_ranks` before the group is complete, and what communicators throw.
Outcome measure(const Config& config, const MeasureOptions& options, MeasureScope scope,
                int64_t timeout_ms, std::string* fragment);

}  // namespace plait
