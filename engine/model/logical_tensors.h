// Names and shapes of the logical tensors of a model, and of its random streams.
#pragma once

#include <string>
#include <vector>

#include "engine/config/settings.h"
#include "kernels/base/tensor.h"

namespace plait {

struct LogicalTensor {
  std::string name;
  Shape shape;
};

/// In canonical order: embeddings, layers ascending, final norm, head.
std::vector<LogicalTensor> logical_tensors(const ModelConfig& model);

/// Names of every random stream that a run of this model may draw from.
std::vector<std::string> stream_names(const ModelConfig& model);

/// Throws `argument` when two of the streams have one key under `seed`.
void check_stream_keys(const ModelConfig& model, uint64_t seed);

/// "layers.I." + `suffix`.
std::string layer_name(int64_t layer, const std::string& suffix);

}  // namespace plait
