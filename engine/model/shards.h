// Which part of each logical tensor a rank of a tensor group holds, as segments of local
// parameters.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/settings.h"
#include "engine/layers/parameter.h"
#include "engine/tensor_parallel/tensor_group.h"

namespace plait {

/// A run of equal parts: heads, ids, rows.
struct ShardRange {
  int64_t first = 0;
  int64_t count = 0;
};

/// A logical tensor before it is cut.
struct TensorPart {
  std::string name;
  Shape shape;
  InitialValue initial;
};

/// Sizes divide as the rules of layouts say; the constructor checks it.
class Shards {
 public:
  /// Of one of the rank's lanes.
  Shards(const ModelConfig& model, const TensorGroup& group, int64_t lane = 0);

  ShardRange heads() const { return split(model_.heads); }
  /// With fewer key/value heads than ranks, one head, which size/G neighbours share.
  ShardRange key_value_heads() const;
  ShardRange feed_forward() const { return split(model_.feed_forward); }
  /// Of the padded vocabulary, those of all lanes; ids ≥ V among them are padding.
  ShardRange ids() const;

  /// Rows of a matrix or elements of a vector, cut in equal runs.
  Segment rows(const TensorPart& part, int64_t first_row) const;
  /// Columns of a matrix, cut in equal runs.
  Segment columns(const TensorPart& part) const;
  /// Rows of the key/value heads here. Where ranks share a head its gradient is partial.
  Segment key_value_rows(const TensorPart& part, int64_t first_row) const;
  /// Ids here without padding; none where all are padding.
  Segment vocabulary_rows(const TensorPart& part) const;
  /// The whole tensor, on every rank. Its gradient is partial where each rank sees its own rows of
  /// the residual stream.
  Segment whole(const TensorPart& part) const;

 private:
  ShardRange split(int64_t count) const;
  Segment cut(const TensorPart& part, int dim, ShardRange range) const;

  const ModelConfig& model_;
  TensorGroup group_;
  int64_t parts_;  ///< lanes of all ranks
  int64_t part_;   ///< this one among them
};

}  // namespace plait
