#include "tests/bench/exchange_loops.h"

#include <immintrin.h>

namespace plait::bench {
namespace {

#define PLAIT_SUM_IN_PLACE(SUFFIX, TARGET, VECTOR, LANES, LOAD, STORE, ADD)               \
  __attribute__((target(TARGET))) void sum_##SUFFIX(float* const* parts, int64_t members, \
                                                    int64_t first, int64_t last) {        \
    for (int64_t i = first; i < last; i += LANES) {                                       \
      VECTOR sum = ADD(LOAD(parts[0] + i), LOAD(parts[1] + i));                           \
      for (int64_t m = 2; m < members; ++m) sum = ADD(sum, LOAD(parts[m] + i));           \
      for (int64_t m = 0; m < members; ++m) STORE(parts[m] + i, sum);                     \
    }                                                                                     \
  }

PLAIT_SUM_IN_PLACE(baseline, "sse2", __m128, 4, _mm_load_ps, _mm_store_ps, _mm_add_ps)
PLAIT_SUM_IN_PLACE(avx2, "avx2", __m256, 8, _mm256_load_ps, _mm256_store_ps, _mm256_add_ps)
PLAIT_SUM_IN_PLACE(avx512, "avx512f", __m512, 16, _mm512_load_ps, _mm512_store_ps, _mm512_add_ps)
#undef PLAIT_SUM_IN_PLACE

}  // namespace

SumInPlace sum_in_place(IsaLevel level) {
  if (level >= IsaLevel::kAvx512) return sum_avx512;
  if (level >= IsaLevel::kAvx2) return sum_avx2;
  return sum_baseline;
}

}  // namespace plait::bench
