// Token embedding whose table is cut by ids over a tensor group: each rank looks up its own ids,
// the sum over ranks is the row; then positions and dropout.
#pragma once

#include <memory>

#include "engine/layers/embedding.h"
#include "engine/tensor_parallel/stream_region.h"

namespace plait {

/// The ids of one rank's shard of a table.
struct IdRange {
  int64_t first = 0;       ///< the shard's row 0
  int64_t vocabulary = 0;  ///< V: an id outside [0, V) is refused on every rank
};

class VocabularyEmbedding final : public EmbeddingLayer {
 public:
  /// `token` [V_p/t, H] holds the ids from `ids.first`; `position`, whole, may be null. Parameters
  /// are borrowed.
  VocabularyEmbedding(Parameter* token, Parameter* position, DropoutSite dropout, IdRange ids,
                      const TensorGroup& group);

  void forward(const Pass& pass, const int32_t* tokens, TensorView y) const override;
  /// Of a cut stream the position table's gradient is one of t terms.
  void backward_input(const Pass& pass, const int32_t* tokens, TensorView grad_y) const override;
  void backward_weight(const Pass& pass, const int32_t* tokens, TensorView grad_y) const override;

 private:
  Parameter* token_;
  Parameter* position_;
  DropoutSite dropout_;
  IdRange ids_;
  std::unique_ptr<StreamRegion> region_;
};

}  // namespace plait
