// Whole logical tensors in and out of the flat, sharded buffers of ranks.
#pragma once

#include <vector>

#include "engine/trainer/engine.h"
#include "engine/trainer/rank.h"
#include "engine/trainer/replica_check.h"

namespace plait {

/// Every (logical tensor, kind), in name order, then kind order. Masters are listed where the
/// compute dtype is not float32.
std::vector<TensorEntry> list_tensors(const Rank& rank, DType compute);

/// Index in canonical order; throws `argument` for a name that the model does not have.
int64_t find_tensor(const Rank& rank, std::string_view name);

/// Values of which each element lies on one rank of the world, once.
struct TensorTerm {
  int64_t tensor = 0;
  TensorKind kind = TensorKind::kParam;
  // Of gradients, which are sums over the data axis, over the holders of a partial segment and
  // over two uses: the term to take.
  int64_t data = 0;
  int64_t holder = 0;
  bool is_head = false;  ///< the use of a tied embedding as head
};

/// What `read_part` leaves where this rank holds nothing: adding it changes no value, not even −0.
inline constexpr float kNothing = -0.0f;

/// Adds this rank's elements of the part to out [elements of the logical tensor], row-major,
/// filled with kNothing before. A parameter is read as the weight that passes compute with.
void read_part(const Rank& rank, const TensorTerm& part, float* out);

/// Writes masters or moments from the whole tensor; a parameter is its master. Only what this rank
/// owns changes; weights follow by Rank::masters_changed.
void write_tensor(Rank& rank, int64_t tensor, TensorKind kind, const float* values);

/// Weights, masters and moments that this rank keeps, and which ranks hold the same.
std::vector<ReplicaPart> list_replicas(const Rank& rank);

/// Between float32 and `dtype`; `data` may have any alignment.
void store_values(const float* values, int64_t count, DType dtype, void* data);
void fetch_values(const void* data, int64_t count, DType dtype, float* values);

}  // namespace plait
