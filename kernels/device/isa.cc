#include "kernels/device/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr const char* kNames[] = {"baseline", "ssse3",       "sse4", "avx2",
                                  "avx512",   "avx512_bf16", "amx"};

CpuRegisters cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuRegisters r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

constexpr bool has_bit(uint32_t word, int bit) { return ((word >> bit) & 1u) != 0; }

uint64_t enabled_state() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

/// Asks Linux for the tile data state; every thread created later has it too.
bool request_amx() {
  constexpr int kArchRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kArchRequestPermission, kTileData) == 0;
}

}  // namespace

IsaReport decide_isa(const IsaProbe& probe) {
  IsaReport report;
  report.amx = "not present";
  const CpuRegisters leaf1 = probe.cpuid(1, 0), leaf7 = probe.cpuid(7, 0);
  const CpuRegisters leaf71 = probe.cpuid(7, 1);
  const uint64_t state = has_bit(leaf1.c, 27) ? probe.enabled_state() : 0;
  if (!has_bit(leaf1.c, 9)) return report;
  report.level = IsaLevel::kSsse3;
  if (!has_bit(leaf1.c, 19) || !has_bit(leaf1.c, 20) || !has_bit(leaf1.c, 1)) return report;
  report.level = IsaLevel::kSse4;
  const bool has_avx2 = has_bit(leaf1.c, 28) && has_bit(leaf1.c, 12) && has_bit(leaf1.c, 29) &&
                        has_bit(leaf7.b, 5) && has_bit(leaf7.b, 3) && has_bit(leaf7.b, 8) &&
                        (state & 6u) == 6u;
  if (!has_avx2) return report;
  report.level = IsaLevel::kAvx2;
  const bool has_avx512 = has_bit(leaf7.b, 16) && has_bit(leaf7.b, 17) && has_bit(leaf7.b, 28) &&
                          has_bit(leaf7.b, 30) && has_bit(leaf7.b, 31) && (state & 0xE6u) == 0xE6u;
  if (!has_avx512) return report;
  report.level = IsaLevel::kAvx512;
  if (!has_bit(leaf71.a, 5)) return report;
  report.level = IsaLevel::kAvx512Bf16;
  const bool has_amx = has_bit(leaf7.d, 22) && has_bit(leaf7.d, 24) && probe.cpuid(0x1D, 0).a >= 1;
  if (!has_amx) return report;
  const bool is_enabled = (state & 0x60000u) == 0x60000u && probe.request_amx();
  report.amx = is_enabled ? "available" : "not permitted";
  if (is_enabled) report.level = IsaLevel::kAmx;
  return report;
}

const IsaReport& detected_isa() {
  static const IsaReport report = decide_isa({cpuid, enabled_state, request_amx});
  return report;
}

const char* isa_name(IsaLevel level) { return kNames[static_cast<int>(level)]; }

IsaLevel effective_isa(std::string_view limit) {
  const IsaLevel found = detected_isa().level;
  if (limit == "auto") return found;
  for (int i = 0; i <= static_cast<int>(IsaLevel::kAmx); ++i) {
    if (limit != kNames[i]) continue;
    return static_cast<IsaLevel>(i) < found ? static_cast<IsaLevel>(i) : found;
  }
  throw Error("argument", "no such instruction-set level").with("key", "isa").with("value", limit);
}

}  // namespace plait
