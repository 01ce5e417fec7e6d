// The loops whose speed is a machine's ceiling, each in the widest form that the level allows.
#pragma once

#include <cstdint>

#include "kernels/device/isa.h"

namespace plait::bench {

/// One kind of arithmetic: `run(n)` does n rounds of `flops` operations in registers and returns a
/// value that depends on all of them.
struct ArithmeticLoop {
  const char* name = nullptr;
  double flops = 0;
  float (*run)(int64_t rounds) = nullptr;
};

/// fp32 multiply-add.
ArithmeticLoop fma_loop(IsaLevel level);
/// `vdpbf16ps`: run is null below avx512_bf16.
ArithmeticLoop bf16_dot_loop(IsaLevel level);
/// `tdpbf16ps` on tiles in registers: run is null below amx.
ArithmeticLoop amx_loop(IsaLevel level);

/// to ← from, and to ← from + 3 · other. Pointers are aligned to 64 bytes, counts are multiples of
/// 16.
struct StreamLoops {
  const char* name = nullptr;
  void (*copy)(const float* from, float* to, int64_t count) = nullptr;
  void (*copy_past_cache)(const float* from, float* to, int64_t count) = nullptr;
  void (*triad)(const float* from, const float* other, float* to, int64_t count) = nullptr;
  void (*triad_past_cache)(const float* from, const float* other, float* to,
                           int64_t count) = nullptr;
};

StreamLoops stream_loops(IsaLevel level);

}  // namespace plait::bench
