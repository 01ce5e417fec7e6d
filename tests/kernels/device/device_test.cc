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
