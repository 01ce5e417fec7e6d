// Whole logical tensors in and out of a rank's flat buffers.
#pragma once

#include "engine/trainer/engine.h"
#include "engine/trainer/rank.h"

namespace plait {

/// Every (logical tensor, kind), in name order, then kind order. Masters are listed where the
/// compute dtype is not float32.
std::vector<TensorEntry> list_tensors(const Rank& rank, DType compute);

/// Index in canonical order; throws `argument` for a name that the model does not have.
int64_t find_tensor(const Rank& rank, std::string_view name);

/// Values of a logical tensor, row-major, rounded or widened to `dtype`; `factor` multiplies them
/// first (1: none). `data` may have any alignment.
void read_logical(const Rank& rank, int64_t tensor, TensorKind kind, DType dtype, double factor,
                  void* data);

/// Writes masters or moments; a parameter is its master. Weights are rounded by the caller.
void write_logical(Rank& rank, int64_t tensor, TensorKind kind, DType dtype, const void* data);

}  // namespace plait
