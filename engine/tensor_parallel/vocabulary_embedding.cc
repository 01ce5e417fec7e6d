#include "engine/tensor_parallel/vocabulary_embedding.h"

namespace plait {

VocabularyEmbedding::VocabularyEmbedding(Parameter* token, Parameter* position, DropoutSite dropout,
                                         IdRange ids, const TensorGroup& group)
    : token_(token),
      position_(position),
      dropout_(dropout),
      ids_(ids),
      region_(make_stream_region(group)) {}

void VocabularyEmbedding::forward(const Pass& pass, const int32_t* tokens, TensorView y) const {
  Workspace::Frame frame(pass.context.workspace);
  // One term is a row of the table and the others are zeros, so their sum is exact in its dtype.
  const TensorView token_rows = frame.tensor(token_->weight.dtype, y.shape);
  EmbeddingForward lookup;
  lookup.tokens = tokens;
  lookup.token_weight = token_->weight;
  lookup.sequence = pass.sequence;
  lookup.first_id = ids_.first;
  lookup.vocabulary = ids_.vocabulary;
  lookup.y = region_->term(pass, token_rows, frame);
  embedding_forward(pass.context, lookup);
  region_->sum(pass, lookup.y, token_rows);
  EmbeddingForward rest;
  rest.token_rows = token_rows;
  rest.positions = pass.stream_positions();
  if (position_ != nullptr) rest.position_weight = position_->weight;
  rest.dropout = dropout_.at(pass);
  rest.sequence = pass.sequence;
  rest.first_row = pass.first_row;
  rest.y = y;
  embedding_forward(pass.context, rest);
}

void VocabularyEmbedding::backward_input(const Pass& pass, const int32_t*,
                                         TensorView grad_y) const {
  if (position_ == nullptr) return;
  EmbeddingBackward arguments;
  arguments.positions = pass.stream_positions();
  arguments.grad_y = grad_y;
  arguments.dropout = dropout_.at(pass);
  arguments.sequence = pass.sequence;
  arguments.first_row = pass.first_row;
  arguments.grad_position = position_->gradient;
  arguments.mode = pass.mode;
  embedding_backward(pass.context, arguments);
}

void VocabularyEmbedding::backward_weight(const Pass& pass, const int32_t* tokens,
                                          TensorView grad_y) const {
  Workspace::Frame frame(pass.context.workspace);
  EmbeddingBackward arguments;
  arguments.tokens = tokens;
  arguments.grad_y = region_->all_rows(pass, grad_y, frame);
  arguments.dropout = dropout_.at(pass);
  arguments.sequence = pass.sequence;
  arguments.grad_token = token_->gradient;
  arguments.mode = pass.mode;
  arguments.first_id = ids_.first;
  arguments.vocabulary = ids_.vocabulary;
  embedding_backward(pass.context, arguments);
}

}  // namespace plait
