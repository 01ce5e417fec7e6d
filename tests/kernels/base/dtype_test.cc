#include "kernels/base/dtype.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace plait;

TEST_CASE("every bfloat16 pattern survives a round trip", "[dtype]") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const BFloat16 value{static_cast<uint16_t>(bits)};
    const float wide = to_float(value);
    const BFloat16 back = to_bfloat16(wide);
    if (std::isnan(wide)) {
      CHECK(std::isnan(to_float(back)));
    } else if (back.bits != value.bits) {
      FAIL("pattern " << bits << " became " << back.bits);
    }
  }
}

TEST_CASE("every float16 pattern survives a round trip and equals the closed formula", "[dtype]") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Float16 value{static_cast<uint16_t>(bits)};
    const float wide = to_float(value);
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 1023;
    if (exponent == 31) {
      CHECK(std::isnan(wide) == (mantissa != 0));
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      if (std::fabs(wide) != magnitude) FAIL("pattern " << bits);
    }
    if (!std::isnan(wide) && to_float16(wide).bits != value.bits) FAIL("pattern " << bits);
  }
}

TEST_CASE("narrowing rounds to nearest even", "[dtype]") {
  CHECK(to_bfloat16(1.0f + 0x1p-8f).bits == to_bfloat16(1.0f).bits);   // tie to even
  CHECK(to_float(to_bfloat16(1.0f + 3 * 0x1p-8f)) == 1.0f + 0x1p-6f);  // tie away from odd
  CHECK(to_float(to_float16(2049.0f)) == 2048.0f);
  CHECK(to_float(to_float16(2051.0f)) == 2052.0f);
  CHECK(std::isinf(to_float(to_float16(65520.0f))));
  CHECK(to_float(to_float16(65519.0f)) == 65504.0f);
  CHECK(to_float(to_float16(0x1p-25f)) == 0.0f);
  CHECK(to_float(to_float16(0x1.8p-25f)) == 0x1p-24f);
  CHECK(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}
