// How the tensors of a Hugging Face file correspond to logical ones. One table serves import and
// export. Conv1D matrices of gpt2 are kept [in, out], and its query, key and value are one matrix.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/logical_tensors.h"
#include "checkpoint/model_facts.h"

namespace plait {

/// A logical tensor inside a file tensor: its row r is file row `first` + r, or file column
/// `first` + r where the file tensor is transposed; element `first` + r of a vector.
struct HfPart {
  CheckpointTensor tensor;
  int64_t first = 0;
};

struct HfTensor {
  std::string name;  ///< with its family's prefix: "transformer.wte.weight"
  Shape shape;       ///< as it stands in the file
  bool transposed = false;
  std::vector<HfPart> parts;  ///< one, or query, key, value
};

/// Every tensor that a file of this model holds, in no particular order; a tied head has none.
/// `unsupported_model` for what the family cannot express (an untied head of gpt2, say).
std::vector<HfTensor> hf_tensors(const ModelFacts& facts);

/// Mask buffers and inverse frequencies that old files carry and nobody needs.
bool is_ignored_hf_tensor(std::string_view name);

/// `name` without gpt2's optional prefix "transformer.".
std::string_view strip_hf_prefix(ModelFacts::Family family, std::string_view name);

}  // namespace plait
