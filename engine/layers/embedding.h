// Token and position embedding at the start of the residual stream.
#pragma once

#include "engine/layers/layer.h"
#include "engine/layers/parameter.h"
#include "kernels/ops/embedding.h"

namespace plait {

class Embedding final : public Layer {
 public:
  /// `position` may be null. Parameters are borrowed.
  Embedding(Parameter* token, Parameter* position, DropoutSite dropout)
      : token_(token), position_(position), dropout_(dropout) {}

  void prepare(OpContext&, int64_t) override {}
  void weights_changed(OpContext&) override {}

  /// tokens [rows], borrowed until the backward pass is done; y [rows, H] residual dtype.
  void forward(const Pass& pass, const int32_t* tokens, TensorView y) const;
  /// grad_y [rows, H] residual dtype. The position table's gradient.
  void backward_input(const Pass& pass, const int32_t* tokens, TensorView grad_y) const;
  /// The token table's gradient.
  void backward_weight(const Pass& pass, const int32_t* tokens, TensorView grad_y) const;

 private:
  EmbeddingBackward backward(const Pass& pass, const int32_t* tokens, TensorView grad_y) const;

  Parameter* token_;
  Parameter* position_;
  DropoutSite dropout_;
};

}  // namespace plait
