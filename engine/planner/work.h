// What a virtual stage runs for one micro-batch, as a list: matrix products, streams through
// memory, collectives over the tensor axis, in the order of the engine (or of the software of the
// profile). Made from configuration and layout alone.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/planner/job.h"

namespace plait {

enum class WorkKind {
  kProduct,        ///< [m×k]·[k×n], `batch` of them
  kStream,         ///< `bytes` through memory
  kAttention,      ///< fused attention: `flops`, the causal half
  kAllReduce,      ///< over the tensor axis, `bytes` of the whole tensor
  kAllGather,      ///< the same
  kReduceScatter,  ///< the same
};

/// What a collective of backward may run beside.
enum class Beside { kNothing, kInputGradient, kWeightGradient };

struct Work {
  WorkKind kind = WorkKind::kStream;
  const char* name = "";  ///< of the operation: "attention.query_key_value", "loss", …
  int64_t m = 0, n = 0, k = 0, batch = 1;
  double bytes = 0;
  double flops = 0;
  Beside beside = Beside::kNothing;
  int64_t count = 1;  ///< how often, layers of the stage together
};

using WorkList = std::vector<Work>;

/// A backward pass in its two parts, and what is run again before them.
struct StageWork {
  WorkList forward;
  WorkList replay;
  WorkList backward_input;
  WorkList backward_weight;
};

/// Of virtual stage σ of a layout that divides everything it must.
StageWork stage_work(const Job& job, const LayoutConfig& layout, int64_t stage);

}  // namespace plait
