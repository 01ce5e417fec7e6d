#include "kernels/base/random.h"

#include <bit>
#include <cmath>

#define XXH_INLINE_ALL
#include <xxhash.h>

// This file is compiled without contraction of a·b + c, so that its bits are the same everywhere.

namespace plait {
namespace {

/// Natural logarithm of x in (0, 1): x = m·2^e with m in [√½, √2), then the atanh series in
/// s = (m − 1)/(m + 1), |s| < 0.1716, to the term whose size falls below half an ulp.
double log_unit(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FE0000000000000ull);
  if (m < 0.70710678118654752440) {
    m = m * 2.0;
    exponent -= 1;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
  constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const double e = exponent;
  return e * kLn2High + (2.0 * s * sum + e * kLn2Low);
}

/// Cosine and sine of 2πu for u in [0, 1): reduced exactly to an eighth of a turn, then Taylor.
void cos_sin_turn(double u, double* cosine, double* sine) {
  const double scaled = u * 8.0;  // exact: a power of two
  const int octant = static_cast<int>(scaled);
  double fraction = scaled - octant;  // exact, in [0, 1)
  const bool is_odd = (octant & 1) != 0;
  if (is_odd) fraction = 1.0 - fraction;
  const double x = fraction * 0.78539816339744830962;
  const double z = x * x;
  double c = 0.0, s = 0.0;
  for (int k = 18; k >= 2; k -= 2) {
    c = (1.0 + c) * (-z / (k * (k - 1)));
    s = (1.0 + s) * (-z / (k * (k + 1)));
  }
  c = 1.0 + c;
  s = x + x * s;
  // In octants 1, 2, 5, 6 the roles of cosine and sine are swapped.
  const bool is_swapped = octant == 1 || octant == 2 || octant == 5 || octant == 6;
  double cos_value = is_swapped ? s : c;
  double sin_value = is_swapped ? c : s;
  if (octant >= 2 && octant <= 5) cos_value = -cos_value;
  if (octant >= 4) sin_value = -sin_value;
  *cosine = cos_value;
  *sine = sin_value;
}

}  // namespace

PhiloxKey stream_key(std::string_view name, uint64_t seed) {
  const uint64_t hash = XXH3_64bits_withSeed(name.data(), name.size(), seed);
  return {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)};
}

std::array<double, 4> normal_block(const PhiloxBlock& words) {
  std::array<double, 4> out{};
  for (int pair = 0; pair < 4; pair += 2) {
    const double u0 = (words[pair] + 0.5) * 0x1p-32;
    const double u1 = (words[pair + 1] + 0.5) * 0x1p-32;
    const double radius = std::sqrt(-2.0 * log_unit(u0));
    double cosine = 0.0, sine = 0.0;
    cos_sin_turn(u1, &cosine, &sine);
    out[pair] = radius * cosine;
    out[pair + 1] = radius * sine;
  }
  return out;
}

void fill_normal(PhiloxKey key, double std, int64_t first, int64_t count, float* out) {
  int64_t i = 0;
  while (i < count) {
    const uint64_t x = static_cast<uint64_t>(first + i);
    const uint64_t block = x >> 2;
    const std::array<double, 4> normals = normal_block(
        philox(key, {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0u, 0u}));
    for (uint64_t lane = x & 3; lane < 4 && i < count; ++lane, ++i) {
      out[i] = static_cast<float>(std * normals[lane]);
    }
  }
}

Dropout Dropout::make(PhiloxKey key, double rate, int64_t first_sample) {
  Dropout dropout;
  dropout.key = key;
  dropout.threshold = static_cast<uint32_t>(rate * 4294967296.0);
  dropout.scale = static_cast<float>(1.0 / (1.0 - rate));
  dropout.first_sample = first_sample;
  return dropout;
}

}  // namespace plait
