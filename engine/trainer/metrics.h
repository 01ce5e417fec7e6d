// What a step reports. Fields and bits are those of `plait_metrics`.
#pragma once

#include <cstdint>

namespace plait {

inline constexpr int64_t kMetricsStep = 1, kMetricsTime = 2, kMetricsMemory = 4,
                         kMetricsReplicas = 8;

struct Metrics {
  int64_t valid = 0;  ///< bits of the groups below that hold values
  // kMetricsStep: equal in every process.
  int64_t step = 0;  ///< the first is 1
  int64_t samples_total = 0;
  int64_t tokens_total = 0;
  int64_t skipped_total = 0;
  int64_t tokens = 0;    ///< of this step
  int64_t targets = 0;   ///< unmasked ones of this step
  int64_t skipped = 0;   ///< 1: the update was not applied
  double loss = 0;       ///< nats per target
  double grad_norm = 0;  ///< before clipping
  double lr = 0;         ///< used in this step
  double loss_scale = 1;
  // kMetricsTime.
  double step_seconds = 0;
  double tokens_per_second = 0;
  double model_flops_per_second = 0;  ///< convention `model`: causal attention counted whole
  double forward_seconds = 0;
  double backward_seconds = 0;
  double communication_seconds = 0;
  double optimizer_seconds = 0;
  double bubble_seconds = 0;
  double data_seconds = 0;
  // kMetricsMemory.
  int64_t memory_bytes = 0;
  int64_t memory_peak_bytes = 0;
  // kMetricsReplicas.
  int64_t diverged_rank = -1;
};

}  // namespace plait
