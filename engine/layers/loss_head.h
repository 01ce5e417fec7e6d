// Logits and cross entropy at the end of the model, in chunks of rows: at most a chunk of logits
// exists at a time, and while it does, its gradient is taken too. So in training the forward pass
// already leaves the gradient of its input and adds that of the head's weight.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/layers/linear.h"

namespace plait {

/// What a micro-batch contributes to the loss. Sums, never means: the caller divides once.
struct LossSum {
  double loss = 0;      ///< Σ −log p over counted targets, in row order
  int64_t targets = 0;  ///< counted ones
};

class LossHead final : public Layer {
 public:
  /// `vocabulary`: V, real ids; the linear's outputs may be padded beyond it. The dtype is that of
  /// the activations.
  LossHead(std::unique_ptr<LinearLayer> logits, int64_t vocabulary, int64_t padded_vocabulary,
           DType dtype);

  void prepare(OpContext& context, int64_t max_rows) override;
  void weights_changed(OpContext& context) override;

  struct Arguments {
    TensorView x;                      ///< [rows, H] compute dtype
    const int32_t* targets = nullptr;  ///< [rows], −1: not counted
    TensorView grad_x;                 ///< [rows, H] compute dtype, or absent: loss alone
    float scale = 1.0f;                ///< gradient of a counted target's loss: S/N₀
    float* losses = nullptr;           ///< [rows]: each row's loss, or null
  };
  /// Zero sums in a measuring pass.
  LossSum run(const Pass& pass, const Arguments& arguments);

  /// logits [rows, padded V] float32 of few rows, for generation.
  void logits(const Pass& pass, TensorView x, TensorView logits);

  int64_t padded_vocabulary() const { return padded_vocabulary_; }

 private:
  struct Chunk {
    int64_t first = 0, rows = 0;
  };
  LossSum run_chunk(const Pass& pass, const Arguments& arguments, const Chunk& chunk);

  std::unique_ptr<LinearLayer> linear_;
  int64_t vocabulary_;
  int64_t padded_vocabulary_;
  DType dtype_;
};

}  // namespace plait
