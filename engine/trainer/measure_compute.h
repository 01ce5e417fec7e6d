// Timings of what a rank computes: products and attention of a model's layer and head, streams
// through memory; on the threads of all ranks at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/planner/job.h"
#include "engine/trainer/measure_fit.h"
#include "engine/trainer/measure_rank.h"

namespace plait {

/// A model at a tensor degree and a micro-batch.
struct ComputeCase {
  int64_t tensor = 1, micro_batch = 1;
};

/// What is the same on all ranks.
struct ComputeProbe {
  DType dtype = DType::kFloat32;
  /// Model, precision, training and profile alone; none: products of common sizes only.
  std::optional<Job> job;
  std::vector<ComputeCase> cases;  ///< the first ones matter most
  int64_t most_bytes = 0;          ///< memory of one rank
  MeasureEffort effort;
  double most_seconds = 0;  ///< after which no further case begins
};

/// Degrees that divide `world` and the model, and micro-batches 1, 2, 4; those of `layout` first.
std::vector<ComputeCase> compute_cases(const Job& job, const LayoutConfig& layout, int64_t world);

struct ComputeCosts {
  std::vector<ProductPoint> points;
  ProductFit products;
  double copy_bytes_per_second = 0;  ///< read and written
  double add_bytes_per_second = 0;   ///< of an op with three operands
  /// FLOP per second, the causal half counted; none without a model.
  std::optional<double> attention_forward_rate, attention_backward_rate;
};

/// Every rank calls it at once; the result is the same on all.
ComputeCosts measure_compute(MeasureRank& rank, const ComputeProbe& probe);

}  // namespace plait
