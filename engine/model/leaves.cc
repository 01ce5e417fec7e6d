#include "engine/model/leaves.h"

#include <utility>

#include "engine/tensor_parallel/column_linear.h"
#include "engine/tensor_parallel/row_linear.h"
#include "engine/tensor_parallel/vocabulary_embedding.h"
#include "engine/tensor_parallel/vocabulary_shards.h"

namespace plait {

std::unique_ptr<LinearLayer> Leaves::column(Parameter* weight, Parameter* bias) const {
  if (group_.size == 1) return std::make_unique<Linear>(weight, bias);
  return std::make_unique<ColumnLinear>(weight, bias, group_);
}

std::unique_ptr<LinearLayer> Leaves::row(Parameter* weight) const {
  if (group_.size == 1) return std::make_unique<Linear>(weight, nullptr);
  return std::make_unique<RowLinear>(weight, group_);
}

std::unique_ptr<EmbeddingLayer> Leaves::embedding(Parameter* token, Parameter* position,
                                                  DropoutSite dropout, int64_t first_id,
                                                  int64_t vocabulary) const {
  if (group_.size == 1) return std::make_unique<Embedding>(token, position, dropout);
  return std::make_unique<VocabularyEmbedding>(token, position, dropout,
                                               IdRange{first_id, vocabulary}, group_);
}

/// The head's product is local in every layout: what crosses ranks is in its shards.
std::unique_ptr<LossHead> Leaves::loss_head(Parameter* weight, bool is_second_use,
                                            const LossHead::Options& options) const {
  std::unique_ptr<LogitShards> shards = std::make_unique<LogitShards>();
  if (group_.size > 1) shards = std::make_unique<VocabularyShards>(group_);
  return std::make_unique<LossHead>(std::make_unique<Linear>(weight, nullptr, is_second_use),
                                    std::move(shards), options);
}

}  // namespace plait
