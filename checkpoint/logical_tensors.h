// The logical tensors of a model as files see them: names and shapes that no layout changes.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model_facts.h"
#include "kernels/base/tensor.h"

namespace plait {

struct CheckpointTensor {
  std::string name;  ///< "layers.3.attention.query.weight"
  Shape shape;       ///< [out, in] for matrices; real vocabulary rows
};

/// All of them in canonical order: embeddings, layers ascending, final norm, untied head.
std::vector<CheckpointTensor> logical_tensors(const ModelFacts& facts);

}  // namespace plait
