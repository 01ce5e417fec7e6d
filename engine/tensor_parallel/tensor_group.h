// The tensor axis as parallel leaves see it.
#pragma once

#include <cstdint>

#include "engine/comm/communicator.h"

namespace plait {

/// `communicator` is borrowed; null when size is 1.
struct TensorGroup {
  Communicator* communicator = nullptr;
  int64_t size = 1;                   ///< t
  int64_t index = 0;                  ///< τ
  bool is_sequence_parallel = false;  ///< rows outside linear pairs are cut in t parts
  bool is_overlapping = true;         ///< sums run beside weight-gradient products
  /// Parts of every linear pair that this rank computes one by one: heads, feed-forward units, ids.
  /// Their number on all ranks together is the same in each layout (canonical sums).
  int64_t lanes = 1;

  /// Rows of a region outside the linear pairs, of a micro-batch of `rows` rows.
  int64_t local_rows(int64_t rows) const { return is_sequence_parallel ? rows / size : rows; }
  /// The first of them.
  int64_t first_row(int64_t rows) const { return is_sequence_parallel ? index * (rows / size) : 0; }
};

}  // namespace plait
