// The implementations of every op, best first, `reference` last. A backend fills the lists in one
// visible place; the trace and the report "kernels" print their names.
#pragma once

#include <vector>

namespace plait {

class LinearKernel;
class ResidualNormKernel;
class ActivationKernel;
class RotaryKernel;
class AttentionKernel;
class EmbeddingKernel;
class CrossEntropyKernel;
class AdamWKernel;
class SpanKernel;
class NormalKernel;

/// Pointers to objects of static storage duration.
struct Kernels {
  std::vector<const LinearKernel*> linear;
  std::vector<const ResidualNormKernel*> residual_norm;
  std::vector<const ActivationKernel*> activation;
  std::vector<const RotaryKernel*> rotary;
  std::vector<const AttentionKernel*> attention;
  std::vector<const EmbeddingKernel*> embedding;
  std::vector<const CrossEntropyKernel*> cross_entropy;
  std::vector<const AdamWKernel*> adamw;
  std::vector<const SpanKernel*> span;
  std::vector<const NormalKernel*> normal;
};

}  // namespace plait
