// Element-wise combination of the members' parts: by ascending index, ((x0 + x1) + x2) + …, in
// fp32, rounded once to the dtype; or as a balanced tree, (x0 + x1) + (x2 + x3), each sum of which
// is rounded to the dtype. Results may go to several places at once, while they are in the cache.
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/device/thread_pool.h"

namespace plait {

/// A tree is of a power of two of members. Maxima are the same in both orders.
enum class SumOrder : uint8_t { kAscending, kTree };

/// Element i of part m lies at parts[m] + i · (size of dtype). A target may be one of the parts,
/// and overlaps none in another way.
struct OrderedParts {
  const char* const* parts = nullptr;
  int64_t members = 0;  ///< ≥ 1
  char* const* targets = nullptr;
  int64_t copies = 0;  ///< ≥ 1
  int64_t elements = 0;
  DType dtype = DType::kFloat32;  ///< float32, bfloat16, float16
  SumOrder order = SumOrder::kAscending;
};

/// Each target ← Σ over parts. `pool` may be null.
void ordered_sum(const OrderedParts& in, ThreadPool* pool);
/// Each target ← maximum over parts [float32]; NaN when one of them is.
void ordered_maximum(const OrderedParts& in, ThreadPool* pool);

/// memcpy by the pool when that pays. `pool` may be null.
void parallel_copy(void* to, const void* from, int64_t bytes, ThreadPool* pool);

}  // namespace plait
