// What the machine can do at most, measured in the process that wants to compare with it.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/device/thread_pool.h"

namespace plait::bench {

/// Fastest of several runs and the spread of their times.
struct Ceiling {
  double rate = 0;  ///< operations or bytes per second; 0: the machine has no such thing
  double spread = 0;
};

struct ProductCeilings {
  Ceiling fma;       ///< fp32
  Ceiling bf16_dot;  ///< vdpbf16ps
  Ceiling amx;
  bool is_dot_faster = false;  ///< vdpbf16ps than FMA, on one thread in turns
  /// Fastest way to multiply bfloat16 matrices: the machine has AMX, or else whatever is fastest.
  double bf16() const;
  const char* bf16_name() const;  ///< "amx", "dot" or "fma"
};

/// Bytes count what the loop names: two arrays in a copy, three in a triad.
struct MemoryCeilings {
  Ceiling copy;
  Ceiling copy_past_cache;
  Ceiling triad;
  Ceiling triad_past_cache;
  int64_t array_bytes = 0;
};

ProductCeilings product_ceilings(ThreadPool& pool);
MemoryCeilings memory_ceilings(ThreadPool& pool);

/// As a JSON object.
std::string ceilings_json(int threads, const ProductCeilings& products,
                          const MemoryCeilings* memory);

}  // namespace plait::bench
