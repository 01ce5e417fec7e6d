// Instruction-set levels of the CPU kernels: found by CPUID and, for AMX, by the kernel's
// permission, once per process. A level includes all below it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace plait {

enum class IsaLevel : int32_t {
  kBaseline = 0,  ///< SSE2
  kSsse3 = 1,
  kSse4 = 2,
  kAvx2 = 3,  ///< with FMA and F16C
  kAvx512 = 4,
  kAvx512Bf16 = 5,
  kAmx = 6,
};

struct IsaReport {
  IsaLevel level = IsaLevel::kBaseline;  ///< the most that this process may use
  std::string amx;                       ///< "available", "not present" or "not permitted"
};

struct CpuRegisters {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

/// What the level is decided from.
struct IsaProbe {
  std::function<CpuRegisters(uint32_t leaf, uint32_t subleaf)> cpuid;
  /// State components that the operating system saves; asked only where CPUID has OSXSAVE.
  std::function<uint64_t()> enabled_state;
  /// Asks for the tile data state of AMX; asked only where all else is there.
  std::function<bool()> request_amx;
};

/// The level and the report for what `probe` tells.
IsaReport decide_isa(const IsaProbe& probe);

/// What this machine and process offer. Any thread; the first call asks the kernel for AMX.
const IsaReport& detected_isa();

/// "baseline", "ssse3", …, "amx".
const char* isa_name(IsaLevel level);

/// The least of what the machine offers and what `limit` ("auto" or a level's name) allows.
/// Unknown names are `argument`.
IsaLevel effective_isa(std::string_view limit);

}  // namespace plait
