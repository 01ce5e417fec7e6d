// Writing a Hugging Face directory from logical tensors. The directory appears whole or not at all.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "checkpoint/logical_tensors.h"
#include "checkpoint/model_facts.h"
#include "kernels/base/dtype.h"
#include "kernels/base/env.h"

namespace plait {

/// Fills `out` with the whole logical tensor, row-major fp32. Called on the exporting thread, one
/// tensor at a time, each name once.
using TensorSource = std::function<void(const CheckpointTensor& tensor, float* out)>;

struct HfExportOptions {
  DType dtype = DType::kFloat32;  ///< or kBFloat16, kFloat16
  /// A single file if it fits, else shards filled greedily in name order; a tensor is never split,
  /// so one larger than this has a shard of its own.
  int64_t max_shard_bytes = 5'000'000'000;
  std::string original_config;  ///< text of the config.json to start from, or empty
  std::function<void(int64_t done, int64_t total)> on_progress;  ///< bytes of tensors; or empty
  const std::atomic<bool>* cancel = nullptr;  ///< true: stops with `cancelled`; null: never
};

struct HfExportResult {
  int64_t weight_files = 0;
  int64_t tensors = 0;  ///< in the files
  int64_t bytes = 0;    ///< of the tensors
};

/// Writes into a hidden sibling of `directory`, syncs files and directory, renames it into place
/// and syncs the parent. An existing target is `target_exists`. On any error neither the target nor
/// the sibling is left. Memory: the largest file tensor and its largest part.
HfExportResult export_hf(Env& env, const ModelFacts& facts, const TensorSource& source,
                         const HfExportOptions& options, const std::string& directory);

}  // namespace plait
