#include "kernels/device/device.h"

#include <catch2/catch.hpp>

#include "kernels/base/error.h"

using namespace plait;

TEST_CASE("levels are limited by name and by the machine", "[isa]") {
  const IsaLevel found = detected_isa().level;
  CHECK(effective_isa("auto") == found);
  CHECK(effective_isa("baseline") == IsaLevel::kBaseline);
  for (int i = 0; i <= static_cast<int>(IsaLevel::kAmx); ++i) {
    const auto level = static_cast<IsaLevel>(i);
    CHECK(effective_isa(isa_name(level)) == std::min(level, found));
  }
  try {
    effective_isa("avx1024");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.word() == "argument");
    CHECK(error.message().find("isa") != std::string::npos);
    CHECK(error.message().find("avx1024") != std::string::npos);
  }
}

TEST_CASE("the report of AMX agrees with the level", "[isa]") {
  const IsaReport& report = detected_isa();
  CHECK((report.amx == "available") == (report.level == IsaLevel::kAmx));
  CHECK(
      (report.amx == "available" || report.amx == "not present" || report.amx == "not permitted"));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    CHECK(report.level >= IsaLevel::kAvx2);
  } else {
    CHECK(report.level < IsaLevel::kAvx2);
  }
  if (!__builtin_cpu_supports("avx512f")) CHECK(report.level < IsaLevel::kAvx512);
#endif
}

namespace {

/// A machine that exists on paper: one of each generation, with all that its level needs.
struct PaperMachine {
  CpuRegisters leaf1, leaf7, leaf71, leaf1d;
  uint64_t state = 0;
  bool is_amx_permitted = true;
  int requests = 0;

  static PaperMachine with_amx() {
    PaperMachine m;
    for (const int bit : {0, 1, 9, 12, 19, 20, 23, 27, 28, 29}) m.leaf1.c |= 1u << bit;
    for (const int bit : {3, 5, 8, 16, 17, 28, 30, 31}) m.leaf7.b |= 1u << bit;
    for (const int bit : {22, 24, 25}) m.leaf7.d |= 1u << bit;  // AMX_BF16, AMX_TILE, AMX_INT8
    m.leaf71.a |= 1u << 5;                                      // AVX512_BF16
    m.leaf1d.a = 1;                                             // one palette
    m.state = 0x602E7;
    return m;
  }

  IsaReport decide() {
    requests = 0;
    return decide_isa({[this](uint32_t leaf, uint32_t subleaf) {
                         if (leaf == 1) return leaf1;
                         if (leaf == 7) return subleaf == 0 ? leaf7 : leaf71;
                         return leaf == 0x1D ? leaf1d : CpuRegisters{};
                       },
                       [this] { return state; },
                       [this] {
                         ++requests;
                         return is_amx_permitted;
                       }});
  }
};

}  // namespace

TEST_CASE("I4: AMX is used where it is present, usable and permitted", "[isa]") {
  PaperMachine machine = PaperMachine::with_amx();
  CHECK(machine.decide().level == IsaLevel::kAmx);
  CHECK(machine.decide().amx == "available");
  CHECK(machine.requests == 1);
  machine.is_amx_permitted = false;  // seccomp, or a kernel that refuses
  CHECK(machine.decide().level == IsaLevel::kAvx512Bf16);
  CHECK(machine.decide().amx == "not permitted");
  machine = PaperMachine::with_amx();
  machine.state = 0x2E7;  // the kernel saves no tiles
  CHECK(machine.decide().level == IsaLevel::kAvx512Bf16);
  CHECK(machine.decide().amx == "not permitted");
  CHECK(machine.requests == 0);
  machine = PaperMachine::with_amx();
  machine.leaf1d.a = 0;  // a virtual machine that reports AMX without a palette
  CHECK(machine.decide().level == IsaLevel::kAvx512Bf16);
  CHECK(machine.decide().amx == "not present");
  CHECK(machine.requests == 0);
  machine = PaperMachine::with_amx();
  machine.leaf7.d &= ~(1u << 22);  // tiles without bfloat16 products
  CHECK(machine.decide().level == IsaLevel::kAvx512Bf16);
}

TEST_CASE("I4: what the operating system does not save is not used", "[isa]") {
  PaperMachine machine = PaperMachine::with_amx();
  machine.leaf71.a = 0;
  CHECK(machine.decide().level == IsaLevel::kAvx512);
  machine.state = 0x7;  // no registers of AVX-512
  CHECK(machine.decide().level == IsaLevel::kAvx2);
  machine.state = 0x3;
  CHECK(machine.decide().level == IsaLevel::kSse4);
  machine = PaperMachine::with_amx();
  machine.leaf1.c &= ~(1u << 27);  // no XSAVE at all
  CHECK(machine.decide().level == IsaLevel::kSse4);
  machine.leaf1.c &= ~(1u << 20);
  CHECK(machine.decide().level == IsaLevel::kSsse3);
  machine.leaf1.c &= ~(1u << 9);
  CHECK(machine.decide().level == IsaLevel::kBaseline);
  CHECK(machine.decide().amx == "not present");
  CHECK(machine.requests == 0);
}

TEST_CASE("a device has the threads and level that were asked for", "[device]") {
  DeviceOptions options;
  options.isa = "baseline";
  options.threads = 3;
  const std::unique_ptr<Device> device = make_device(options);
  CHECK(device->isa() == IsaLevel::kBaseline);
  CHECK(device->pool().threads() == 3);
  {
    const Buffer buffer = device->allocate(1000, MemoryCategory::kCommunication);
    CHECK(device->ledger().bytes(MemoryCategory::kCommunication) == 1000);
  }
  CHECK(device->ledger().total() == 0);
  options.threads = 0;
  CHECK(make_device(options)->pool().threads() == usable_cores());
  CHECK(usable_cores() >= 1);
}

TEST_CASE("an unknown kind of device is named", "[device]") {
  DeviceOptions options;
  options.kind = "abacus";
  try {
    make_device(options);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.word() == "argument");
    CHECK(error.message().find("value=abacus") != std::string::npos);
  }
}
