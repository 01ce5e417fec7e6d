// The golden checkpoints (tests/checkpoint/golden/README.md).
#pragma once

#include <string>

namespace plait {

inline constexpr const char* kGoldenSteps[] = {"0.1/one_rank", "0.1/tensor_2_pipeline_2",
                                               "0.1/data_2_zero_3"};

/// The directory of one, or with ".txt" the text beside it.
inline std::string golden_path(const std::string& name) {
  return PLAIT_SOURCE_DIR "/tests/checkpoint/golden/" + name;
}

}  // namespace plait
