// FLOPs of the forward pass on one sample, by the convention `model`: causal attention counted
// whole, the vocabulary without padding. A training pass takes three times as many.
#pragma once

#include <cstdint>

#include "engine/config/settings.h"

namespace plait {

/// Of one layer on `sequence` tokens.
double layer_flops(const ModelConfig& model, int64_t sequence);
/// Of the logits.
double head_flops(const ModelConfig& model, int64_t sequence);

}  // namespace plait
