// Token and position embedding at the start of the residual stream.
#pragma once

#include "engine/layers/layer.h"
#include "engine/layers/parameter.h"
#include "kernels/ops/embedding.h"

namespace plait {

class EmbeddingLayer : public Layer {
 public:
  void prepare(OpContext&, int64_t) override {}
  void weights_changed(OpContext&) override {}

  /// tokens [rows], borrowed until the backward pass is done; y [stream rows, H] residual dtype.
  virtual void forward(const Pass& pass, const int32_t* tokens, TensorView y) const = 0;
  /// grad_y [stream rows, H] residual dtype. The position table's gradient.
  virtual void backward_input(const Pass& pass, const int32_t* tokens, TensorView grad_y) const = 0;
  /// The token table's gradient.
  virtual void backward_weight(const Pass& pass, const int32_t* tokens,
                               TensorView grad_y) const = 0;
};

/// With the whole token table.
class Embedding final : public EmbeddingLayer {
 public:
  /// `position` may be null. Parameters are borrowed.
  Embedding(Parameter* token, Parameter* position, DropoutSite dropout)
      : token_(token), position_(position), dropout_(dropout) {}

  void forward(const Pass& pass, const int32_t* tokens, TensorView y) const override;
  void backward_input(const Pass& pass, const int32_t* tokens, TensorView grad_y) const override;
  void backward_weight(const Pass& pass, const int32_t* tokens, TensorView grad_y) const override;

 private:
  EmbeddingBackward backward(const Pass& pass, const int32_t* tokens, TensorView grad_y) const;

  Parameter* token_;
  Parameter* position_;
  DropoutSite dropout_;
};

}  // namespace plait
