// Layouts that a checkpoint goes between, and the models that are laid out.
#pragma once

#include <string>
#include <vector>

#include "engine/config/config.h"
#include "tests/support/tiny_model.h"

namespace plait::test {

struct LayoutCase {
  int tensor, pipeline, data, interleave, zero;
  bool is_sequence_parallel = false;
  const char* stage_layers = "";  ///< empty: evenly

  Keys keys() const {
    Keys keys = {{"layout.tensor", std::to_string(tensor)},
                 {"layout.pipeline", std::to_string(pipeline)},
                 {"layout.data", std::to_string(data)},
                 {"layout.interleave", std::to_string(interleave)},
                 {"layout.zero", std::to_string(zero)},
                 {"layout.sequence_parallel", is_sequence_parallel ? "true" : "false"}};
    if (*stage_layers != '\0') keys.emplace_back("layout.stage_layers", stage_layers);
    return keys;
  }
  std::string text() const {
    std::string text;
    for (const auto& [key, value] : keys()) text += key.substr(7) + "=" + value + " ";
    return text;
  }
};

/// Of 1, 2, 3, 4, 6 and 8 ranks; the first is of one. With a tensor degree of 3 two key/value heads
/// cannot be shared out, which leaves 32 for such a model.
inline const std::vector<LayoutCase>& layout_cases() {
  static const std::vector<LayoutCase> cases = {
      {1, 1, 1, 1, 0},
      {2, 1, 1, 1, 0},
      {1, 2, 1, 1, 0},
      {1, 2, 1, 1, 0, false, "[1,3]"},
      {1, 2, 1, 1, 0, false, "[0,4]"},
      {1, 2, 1, 2, 0},
      {1, 1, 2, 1, 0},
      {1, 1, 2, 1, 2},
      {1, 1, 2, 1, 3},
      {3, 1, 1, 1, 0},
      {1, 3, 1, 1, 0, false, "[2,1,1]"},
      {1, 1, 3, 1, 1},
      {1, 1, 3, 1, 3},
      {4, 1, 1, 1, 0, true},
      {2, 2, 1, 1, 0},
      {2, 1, 2, 1, 1},
      {1, 2, 2, 2, 2},
      {1, 4, 1, 1, 0},
      {1, 1, 4, 1, 2},
      {1, 2, 2, 1, 3, false, "[3,1]"},
      {1, 4, 1, 2, 0, false, "[1,0,1,0,1,0,1,0]"},
      {2, 3, 1, 1, 0, true, "[1,2,1]"},
      {6, 1, 1, 1, 0},
      {1, 1, 6, 1, 1},
      {1, 3, 2, 2, 0, false, "[1,1,0,1,1,0]"},
      {2, 1, 3, 1, 3},
      {3, 1, 2, 1, 2},
      {8, 1, 1, 1, 0, true},
      {2, 2, 2, 1, 0},
      {2, 2, 2, 1, 3},
      {4, 2, 1, 2, 0},
      {1, 1, 8, 1, 1},
      {1, 1, 8, 1, 3},
      {1, 4, 2, 1, 2, false, "[2,0,1,1]"},
  };
  return cases;
}

/// Four layers × 24, a vocabulary of 61, heads that every tensor degree divides. GPT-2 has a tied
/// head and float32 weights; Llama two key/value heads, a head of its own, masters.
inline Config laid_out_config(bool is_llama, const Keys& layout) {
  Keys keys = {{"model.layers", "4"},        {"model.hidden", "24"},
               {"model.heads", "24"},        {"model.head_size", "2"},
               {"model.feed_forward", "24"}, {"model.sequence_length", "24"},
               {"train.global_batch", "24"}, {"threads", "1"}};
  if (is_llama) {
    keys.emplace_back("model.family", "llama");
    keys.emplace_back("model.key_value_heads", "2");
    keys.emplace_back("precision.compute", "bf16");
  }
  keys.insert(keys.end(), layout.begin(), layout.end());
  return tiny_config(keys);
}

/// Those of `layout_cases` that the model can have.
inline std::vector<LayoutCase> layouts_of(bool is_llama) {
  std::vector<LayoutCase> all;
  for (const LayoutCase& layout : layout_cases()) {
    if (!is_llama || layout.tensor != 3) all.push_back(layout);
  }
  return all;
}

}  // namespace plait::test
