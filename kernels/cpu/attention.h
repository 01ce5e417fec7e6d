// Causal attention on vector units: tiles of scores in fp32, online softmax, any head size and
// length.
#pragma once

#include <vector>

#include "kernels/ops/attention.h"

namespace plait {

/// Best first, without reference. Objects of static storage duration.
std::vector<const AttentionKernel*> attention_kernels();

}  // namespace plait
