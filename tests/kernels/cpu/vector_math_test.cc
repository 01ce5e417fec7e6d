// The building blocks of vector code on every target that this machine has, against scalar code in
// double and against kernels/base.
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/vector_math_test.cc"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/philox-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

enum class Function { kExp, kExpNonpositive, kSigmoid };

void map_floats(Function function, const float* from, float* to, int64_t count) {
  const FloatTag d;
  for_vectors(d, count, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const auto x = load(d, from + i, lanes);
    auto y = x;
    if (function == Function::kExp) y = exp(d, x);
    if (function == Function::kExpNonpositive) y = exp_nonpositive(d, x);
    if (function == Function::kSigmoid) y = sigmoid(d, x);
    store(d, y, to + i, lanes);
  });
}

template <class T>
void round_trip(const float* from, T* narrow, float* back, int64_t count) {
  const FloatTag d;
  for_vectors(d, count, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const auto stored = store_rounded(d, load(d, from + i, lanes), narrow + i, lanes);
    store(d, stored, back + i, lanes);
  });
}

void round_trip_bfloat16(const float* from, BFloat16* narrow, float* back, int64_t count) {
  round_trip(from, narrow, back, count);
}

void round_trip_float16(const float* from, Float16* narrow, float* back, int64_t count) {
  round_trip(from, narrow, back, count);
}

int64_t draw_factors(const Dropout& dropout, uint64_t sample, uint64_t x, int64_t count,
                     float* buffer) {
  return dropout_factors(FloatTag(), dropout, sample, x, count, buffer) - buffer;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/dispatch.h"
#include "tests/kernels/cpu/implementations.h"

namespace plait {
namespace {

using HWY_NAMESPACE::Function;

PLAIT_CPU_EXPORT(round_trip_bfloat16);
PLAIT_CPU_EXPORT(round_trip_float16);
PLAIT_CPU_EXPORT(draw_factors);

std::vector<IsaLevel> vector_levels() {
  std::vector<IsaLevel> found;
  for (const IsaLevel level : levels()) {
    if (has_vector_code(level)) found.push_back(level);
  }
  return found;
}

/// The enumeration is a type of its own for each target.
void map_at(IsaLevel isa, int function, const std::vector<float>& x, std::vector<float>& y) {
  const auto count = static_cast<int64_t>(x.size());
  y.resize(x.size());
  switch (dispatch_index(isa)) {
    case 0:
      return N_SSSE3::map_floats(static_cast<N_SSSE3::Function>(function), x.data(), y.data(),
                                 count);
    case 1:
      return N_SSE4::map_floats(static_cast<N_SSE4::Function>(function), x.data(), y.data(), count);
    case 2:
      return N_AVX2::map_floats(static_cast<N_AVX2::Function>(function), x.data(), y.data(), count);
    default:
      return N_AVX3::map_floats(static_cast<N_AVX3::Function>(function), x.data(), y.data(), count);
  }
}

/// Floats of every sign and exponent, a few of each, and the odd ones.
std::vector<float> sampled_floats() {
  std::vector<float> found = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN};
  for (uint32_t high = 0; high < 0x10000u; ++high) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x1000u, 0x3A5Cu, 0x7FFFu, 0x8000u, 0x8001u}) {
      found.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  for (int i = -110000; i <= 110000; ++i) found.push_back(static_cast<float>(i) * 1e-3f);
  return found;
}

/// Distance in units of the last place of float at `want`.
double units_off(float got, double want) {
  if (static_cast<float>(want) == got) return 0.0;
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST_CASE("exponentials are within two units of the last place", "[math]") {
  const std::vector<float> x = sampled_floats();
  std::vector<float> y;
  for (const IsaLevel level : vector_levels()) {
    for (const int function : {0, 1, 2}) {
      map_at(level, function, x, y);
      double worst = 0.0;
      int64_t lost = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = x[i];
        if (std::isnan(v)) {
          if (!std::isnan(y[i])) ++lost;
          continue;
        }
        double want = function == 2 ? 1.0 / (1.0 + std::exp(-v)) : std::exp(v);
        if (function == 1 && v > 0) continue;
        if (function == 1 && x[i] < -87.3f) want = 0.0;
        if (function == 2 && v < -87) want = 1.0 / (1.0 + std::exp(87.0));
        worst = std::max(worst, units_off(y[i], want));
      }
      INFO("function " << function << " at " << isa_name(level));
      CHECK(worst < 3.0);
      CHECK(lost == 0);
    }
  }
}

TEST_CASE("vector rounding to 16 bits is that of kernels/base", "[math]") {
  const std::vector<float> x = sampled_floats();
  const auto count = static_cast<int64_t>(x.size());
  std::vector<float> back(x.size());
  std::vector<BFloat16> brief(x.size());
  std::vector<Float16> half(x.size());
  for (const IsaLevel level : vector_levels()) {
    int64_t wrong = 0;
    PLAIT_CPU_CALL(round_trip_bfloat16, level)(x.data(), brief.data(), back.data(), count);
    for (size_t i = 0; i < x.size(); ++i) {
      const BFloat16 want = to_bfloat16(x[i]);
      const bool is_same =
          brief[i].bits == want.bits &&
          std::bit_cast<uint32_t>(back[i]) == std::bit_cast<uint32_t>(to_float(want));
      if (!is_same) ++wrong;
    }
    PLAIT_CPU_CALL(round_trip_float16, level)(x.data(), half.data(), back.data(), count);
    for (size_t i = 0; i < x.size(); ++i) {
      const bool is_same =
          std::isnan(x[i]) ? std::isnan(to_float(half[i])) && std::isnan(back[i])
                           : half[i].bits == to_float16(x[i]).bits && back[i] == to_float(half[i]);
      if (!is_same) ++wrong;
    }
    INFO(isa_name(level));
    CHECK(wrong == 0);
  }
}

TEST_CASE("vector dropout draws the bits of kernels/base", "[math]") {
  alignas(64) float buffer[1100];
  for (const IsaLevel level : vector_levels()) {
    for (const uint64_t x : {uint64_t{0}, uint64_t{1}, uint64_t{7}, (uint64_t{1} << 34) - 50,
                             (uint64_t{1} << 34) - 7, uint64_t{0xFFFFFFFFFFF}}) {
      for (const int64_t count : {1, 3, 64, 65, 1000}) {
        for (const uint64_t sample : {uint64_t{7}, (uint64_t{1} << 32) + 3}) {
          const Dropout dropout = Dropout::make({0xD2C88082u, 0xD4F446B2u}, 0.3, 0);
          const int64_t first =
              PLAIT_CPU_CALL(draw_factors, level)(dropout, sample, x, count, buffer);
          int64_t wrong = 0;
          for (int64_t i = 0; i < count; ++i) {
            const auto element = x + static_cast<uint64_t>(i);
            if (buffer[first + i] != dropout_factor(dropout, sample, element)) ++wrong;
          }
          INFO(isa_name(level) << ", element " << x << ", count " << count);
          CHECK(wrong == 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace plait
#endif  // HWY_ONCE
