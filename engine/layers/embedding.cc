#include "engine/layers/embedding.h"

namespace plait {

void Embedding::forward(const Pass& pass, const int32_t* tokens, TensorView y) const {
  EmbeddingForward arguments;
  arguments.tokens = tokens;
  arguments.positions = pass.positions;
  arguments.token_weight = token_->weight;
  if (position_ != nullptr) arguments.position_weight = position_->weight;
  arguments.dropout = dropout_.at(pass);
  arguments.sequence = pass.sequence;
  arguments.y = y;
  embedding_forward(pass.context, arguments);
}

EmbeddingBackward Embedding::backward(const Pass& pass, const int32_t* tokens,
                                      TensorView grad_y) const {
  EmbeddingBackward arguments;
  arguments.tokens = tokens;
  arguments.positions = pass.positions;
  arguments.grad_y = grad_y;
  arguments.dropout = dropout_.at(pass);
  arguments.sequence = pass.sequence;
  arguments.mode = pass.mode;
  return arguments;
}

void Embedding::backward_input(const Pass& pass, const int32_t* tokens, TensorView grad_y) const {
  if (position_ == nullptr) return;
  EmbeddingBackward arguments = backward(pass, tokens, grad_y);
  arguments.grad_position = position_->gradient;
  embedding_backward(pass.context, arguments);
}

void Embedding::backward_weight(const Pass& pass, const int32_t* tokens, TensorView grad_y) const {
  EmbeddingBackward arguments = backward(pass, tokens, grad_y);
  arguments.grad_token = token_->gradient;
  embedding_backward(pass.context, arguments);
}

}  // namespace plait
