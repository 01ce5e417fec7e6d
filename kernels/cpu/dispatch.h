// Run-time choice of code by the engine's instruction-set level.
//
// A source with vector code is compiled once per Highway target (SSSE3, SSE4, AVX2, AVX3), each in
// a namespace and with instructions of its own; nothing outside those namespaces is compiled for
// more than the baseline. The level comes from the device of each call, so engines of one process
// may use different levels. At IsaLevel::kBaseline the vector kernels support nothing and the
// reference serves.
//
// Shape of a source (`kernels/cpu/NAME.cc`):
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/cpu/NAME.cc"
//   #include "hwy/foreach_target.h"  // must come before the next line
//   #include "hwy/highway.h"
//   #include "kernels/cpu/…-inl.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace plait {
//   namespace HWY_NAMESPACE {
//   namespace {
//   void rows(const Arguments& arguments, int64_t first, int64_t last) { … }
//   }  // namespace
//   }  // namespace HWY_NAMESPACE
//   }  // namespace plait
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace plait {
//   namespace {
//   PLAIT_CPU_EXPORT(rows);
//   … PLAIT_CPU_CALL(rows, context.device.isa())(arguments, first, last); …
//
// Sharing work among threads stays in the part that is compiled once. Templates of the standard
// library stay out of the per-target part: an instance made there may be compiled for that target
// and then serve the whole program.
#pragma once

#include "kernels/device/isa.h"

namespace plait {

/// Whether the vector kernels run at this level at all.
constexpr bool has_vector_code(IsaLevel isa) { return isa >= IsaLevel::kSsse3; }

/// Entry of a table made by PLAIT_CPU_EXPORT. `isa` is one that has vector code.
constexpr int dispatch_index(IsaLevel isa) {
  if (isa >= IsaLevel::kAvx512) return 3;
  if (isa == IsaLevel::kAvx2) return 2;
  return isa == IsaLevel::kSse4 ? 1 : 0;
}

}  // namespace plait

/// Defines the table of a function of the per-target namespaces. At namespace scope, once.
#define PLAIT_CPU_EXPORT(function)                                \
  constexpr decltype(&N_SSSE3::function) function##_by_isa[4] = { \
      &N_SSSE3::function, &N_SSE4::function, &N_AVX2::function, &N_AVX3::function}

/// The function for a level, to be called: PLAIT_CPU_CALL(rows, isa)(arguments…).
#define PLAIT_CPU_CALL(function, isa) (*function##_by_isa[::plait::dispatch_index(isa)])
