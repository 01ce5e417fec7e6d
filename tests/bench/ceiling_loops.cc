#include "tests/bench/ceiling_loops.h"

#include <immintrin.h>

namespace plait::bench {
namespace {

constexpr int kChains = 24;  // independent sums: latency times units, and registers to hold them

float fma_baseline(int64_t rounds) {
  __m128 sums[12];
  for (int i = 0; i < 12; ++i) sums[i] = _mm_set1_ps(static_cast<float>(i));
  const __m128 factor = _mm_set1_ps(0.999f), term = _mm_set1_ps(0.001f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sums[i] = _mm_add_ps(_mm_mul_ps(sums[i], factor), term);
  }
  __m128 total = sums[0];
  for (int i = 1; i < 12; ++i) total = _mm_add_ps(total, sums[i]);
  return _mm_cvtss_f32(total);
}

__attribute__((target("avx2,fma"))) float fma_avx2(int64_t rounds) {
  __m256 sums[12];
  for (int i = 0; i < 12; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  }
  __m256 total = sums[0];
  for (int i = 1; i < 12; ++i) total = _mm256_add_ps(total, sums[i]);
  return _mm256_cvtss_f32(total);
}

__attribute__((target("avx512f"))) float fma_avx512(int64_t rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  }
  __m512 total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
  return _mm512_cvtss_f32(total);
}

__attribute__((target("avx512f,avx512bf16"))) float dot_bf16(int64_t rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
  const __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.125f), _mm512_set1_ps(0.25f));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], a, b);
  }
  __m512 total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
  return _mm512_cvtss_f32(total);
}

/// What `ldtilecfg` reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

/// Four sums of 2 × 2 tiles a round.
__attribute__((target("amx-tile,amx-bf16"))) float tiles_bf16(int64_t rounds) {
  const TileShapes shapes;
  alignas(64) uint16_t operand[16 * 32];
  alignas(64) float sum[16 * 16];
  // Values between 0.5 and 1: what multiplies zeros may run faster than what trains.
  for (int i = 0; i < 16 * 32; ++i) operand[i] = static_cast<uint16_t>(0x3F00 + i * 37 % 128);
  __asm__ volatile("" ::: "memory");
  _tile_loadconfig(&shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, operand, 64);
  _tile_loadd(5, operand, 64);
  _tile_loadd(6, operand, 64);
  _tile_loadd(7, operand, 64);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(3, sum, 64);
  _tile_release();
  __asm__ volatile("" ::: "memory");
  return sum[0];
}

// Four vectors a turn. A store past the cache needs a fence before others may read.
#define PLAIT_STREAMS(SUFFIX, TARGET, VECTOR, LANES, LOAD, STORE, STREAM, SET, ADD, MUL)          \
  __attribute__((target(TARGET))) void copy_##SUFFIX(const float* from, float* to, int64_t n) {   \
    for (int64_t i = 0; i < n; i += LANES) STORE(to + i, LOAD(from + i));                         \
  }                                                                                               \
  __attribute__((target(TARGET))) void copy_past_##SUFFIX(const float* from, float* to,           \
                                                          int64_t n) {                            \
    for (int64_t i = 0; i < n; i += LANES) STREAM(to + i, LOAD(from + i));                        \
    _mm_sfence();                                                                                 \
  }                                                                                               \
  __attribute__((target(TARGET))) void triad_##SUFFIX(const float* from, const float* other,      \
                                                      float* to, int64_t n) {                     \
    const VECTOR factor = SET(3.0f);                                                              \
    for (int64_t i = 0; i < n; i += LANES)                                                        \
      STORE(to + i, ADD(LOAD(from + i), MUL(LOAD(other + i), factor)));                           \
  }                                                                                               \
  __attribute__((target(TARGET))) void triad_past_##SUFFIX(const float* from, const float* other, \
                                                           float* to, int64_t n) {                \
    const VECTOR factor = SET(3.0f);                                                              \
    for (int64_t i = 0; i < n; i += LANES)                                                        \
      STREAM(to + i, ADD(LOAD(from + i), MUL(LOAD(other + i), factor)));                          \
    _mm_sfence();                                                                                 \
  }

PLAIT_STREAMS(baseline, "sse2", __m128, 4, _mm_load_ps, _mm_store_ps, _mm_stream_ps, _mm_set1_ps,
              _mm_add_ps, _mm_mul_ps)
PLAIT_STREAMS(avx2, "avx2", __m256, 8, _mm256_load_ps, _mm256_store_ps, _mm256_stream_ps,
              _mm256_set1_ps, _mm256_add_ps, _mm256_mul_ps)
PLAIT_STREAMS(avx512, "avx512f", __m512, 16, _mm512_load_ps, _mm512_store_ps, _mm512_stream_ps,
              _mm512_set1_ps, _mm512_add_ps, _mm512_mul_ps)
#undef PLAIT_STREAMS

}  // namespace

ArithmeticLoop fma_loop(IsaLevel level) {
  if (level >= IsaLevel::kAvx512) return {"AVX-512 FMA", kChains * 32.0, fma_avx512};
  if (level >= IsaLevel::kAvx2) return {"AVX2 FMA", 12 * 16.0, fma_avx2};
  return {"SSE2 multiply, add", 12 * 8.0, fma_baseline};
}

ArithmeticLoop bf16_dot_loop(IsaLevel level) {
  if (level >= IsaLevel::kAvx512Bf16) return {"vdpbf16ps", kChains * 64.0, dot_bf16};
  return {};
}

ArithmeticLoop amx_loop(IsaLevel level) {
  if (level >= IsaLevel::kAmx) return {"AMX tdpbf16ps", 4 * 16384.0, tiles_bf16};
  return {};
}

StreamLoops stream_loops(IsaLevel level) {
  if (level >= IsaLevel::kAvx512)
    return {"AVX-512", copy_avx512, copy_past_avx512, triad_avx512, triad_past_avx512};
  if (level >= IsaLevel::kAvx2)
    return {"AVX2", copy_avx2, copy_past_avx2, triad_avx2, triad_past_avx2};
  return {"SSE2", copy_baseline, copy_past_baseline, triad_baseline, triad_past_baseline};
}

}  // namespace plait::bench
