// What a plan is made for: everything but the layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/settings.h"
#include "engine/planner/hardware.h"
#include "engine/planner/profile.h"

namespace plait {

struct Job {
  ModelConfig model;
  PrecisionConfig precision;
  TrainConfig train;
  int64_t world = 1;
  int64_t save_every = 0;      ///< steps; 0: no saves
  int64_t evaluate_every = 0;  ///< steps; 0: no evaluations
  int64_t evaluate_batches = 0;
  int64_t tokens = 0;  ///< of the whole run; 0: not asked
  int64_t top = 5;     ///< candidates that are wanted
  bool tries_uneven = false, tries_gpipe = false, tries_zero3 = false;
  Profile profile;
  Hardware hardware;

  /// Tokens of a step.
  double step_tokens() const {
    return static_cast<double>(train.global_batch) * static_cast<double>(train.sequence_length);
  }
};

/// Throws `argument`: what make_hardware and the rules of model and batch refuse; world < 1; a
/// description without the peak of the compute dtype, the rate of fused attention where the profile
/// has it, or the links that a world of this size needs (key); a world larger than the single node
/// that is described (world, nearest).
Job make_job(const Config& config, int64_t world);

/// Bytes of one element: of the compute dtype, and of the residual stream.
int64_t compute_bytes(const Job& job);
int64_t residual_bytes(const Job& job);

/// V_p: the vocabulary rounded up to a multiple of 128·t.
int64_t padded_vocabulary(const ModelConfig& model, int64_t tensor);

/// m: micro-batches of a step on each data coordinate. The layout divides the batch.
int64_t micro_batches(const Job& job, const LayoutConfig& layout);

/// Layers of each virtual stage, by σ: the explicit counts, or equal runs.
std::vector<int64_t> stage_layers(const ModelConfig& model, const LayoutConfig& layout);

}  // namespace plait
