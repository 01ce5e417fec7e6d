// model.safetensors.index.json: which shard holds which tensor. Shard names are hostile text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "kernels/base/env.h"

namespace plait {

inline constexpr char kHfSingleFile[] = "model.safetensors";
inline constexpr char kHfIndexFile[] = "model.safetensors.index.json";

struct HfIndex {
  std::vector<std::string> shards;         ///< base names, sorted, each once
  std::map<std::string, size_t> shard_of;  ///< tensor name → place in `shards`
  double total_size = 0;                   ///< as the file says; some writers use a real
  bool has_total_size = false;
};

/// `invalid_field` for text that is no such index, or for a shard name that is not a plain
/// `[A-Za-z0-9._-]+.safetensors`.
HfIndex read_hf_index(Files& files, const std::string& directory);

/// `invalid_field` with all tensors that index and shards place differently. `files` stand in the
/// order of `index.shards`.
void check_hf_index(const HfIndex& index,
                    const std::vector<std::unique_ptr<SafetensorsFile>>& files,
                    const std::string& directory);

}  // namespace plait
