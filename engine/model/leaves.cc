#include "engine/model/leaves.h"

#include <utility>
#include <vector>

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
  std::vector<std::unique_ptr<LinearLayer>> lanes;
  for (int64_t lane = 0; lane < group_.lanes; ++lane) {
    lanes.push_back(std::make_unique<Linear>(
        weight, Linear::Rows{lane * options.width, options.width}, is_second_use));
  }
  return std::make_unique<LossHead>(std::move(lanes), std::move(shards), options);
}

}  // namespace plait
