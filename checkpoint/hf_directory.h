// A Hugging Face directory opened as a source of logical tensors: config.json with
// model.safetensors, or with model.safetensors.index.json and its shards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/hf_config.h"
#include "checkpoint/logical_tensors.h"
#include "checkpoint/safetensors.h"
#include "kernels/base/box.h"
#include "kernels/base/env.h"

namespace plait {

/// Where a logical tensor lies.
struct HfSource {
  const SafetensorsFile* file = nullptr;
  const SafetensorsEntry* entry = nullptr;
  int64_t first = 0;  ///< as in HfPart
  bool transposed = false;
};

/// Any thread may read.
class HfDirectory {
 public:
  /// True when `directory` has a config.json and one of the two weight files.
  static bool is_one(Files& files, const std::string& directory);

  /// Opens and checks everything but the values: headers, index, names, shapes, dtypes, and that a
  /// tied head in the file equals the embedding. Errors: those of read_hf_config;
  /// `no_checkpoint` without weights; `missing_shard`; `invalid_field`; `name_mismatch` with all
  /// missing and unexpected names; `config_mismatch` with all shapes that differ;
  /// `unsupported_model` for an element type; `tied_mismatch`.
  static HfDirectory open(Files& files, const std::string& directory);

  const HfConfig& config() const { return config_; }
  const ModelFacts& facts() const { return config_.facts; }
  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }  ///< canonical order
  /// Those of the configuration, then those of the files.
  const std::vector<std::string>& warnings() const { return warnings_; }
  int64_t file_count() const { return static_cast<int64_t>(files_.size()); }
  int64_t data_bytes() const { return data_bytes_; }  ///< of all tensors in the files

  /// Null for a name that this model does not have.
  const CheckpointTensor* find(std::string_view name) const;
  /// Element type in the file, "F16", of the logical tensor `name`.
  const char* type_name(std::string_view name) const;

  /// Throws `config_mismatch` with every field in which the model of a run differs; the longest
  /// sequence of llama is a run's own choice.
  void check_matches(const ModelFacts& run) const;

  /// Reads a box of a logical tensor, row-major, as fp32. Extra memory: at most 4 MiB.
  void read(std::string_view name, const Box& box, float* out) const;

 private:
  HfDirectory() = default;
  void open_files(Files& files, const std::string& directory);
  void open_shards(Files& files, const std::string& directory);
  void resolve();
  void check_tied(const SafetensorsFile& file, const SafetensorsEntry& head) const;
  size_t index_of(std::string_view name) const;

  HfConfig config_;
  std::string directory_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<CheckpointTensor> tensors_;
  std::vector<HfSource> sources_;  // beside tensors_
  std::unordered_map<std::string, size_t> index_;
  std::vector<std::string> warnings_;
  int64_t data_bytes_ = 0;
};

}  // namespace plait
