// The inner loops against the plain conversions of kernels/base/dtype.h.
#include "engine/comm/ordered_sum.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace plait::test {
namespace {

template <class T>
std::vector<T> sum_of(const std::vector<std::vector<T>>& parts,
                      SumOrder order = SumOrder::kAscending) {
  std::vector<const char*> pointers;
  for (const std::vector<T>& part : parts) {
    pointers.push_back(reinterpret_cast<const char*>(part.data()));
  }
  std::vector<T> to(parts.front().size()), other(to.size());
  char* const targets[] = {reinterpret_cast<char*>(to.data()),
                           reinterpret_cast<char*>(other.data())};
  OrderedParts in;
  in.parts = pointers.data();
  in.members = static_cast<int64_t>(parts.size());
  in.targets = targets;
  in.copies = 2;
  in.elements = static_cast<int64_t>(to.size());
  in.dtype = DTypeOf<T>::value;
  in.order = order;
  ordered_sum(in, nullptr);
  CHECK(std::memcmp(to.data(), other.data(), to.size() * sizeof(T)) == 0);
  return to;
}

/// The tree over parts [first, first + count), a power of two, each sum rounded to T.
template <class T>
float tree_of(const std::vector<std::vector<T>>& parts, size_t i, size_t first, size_t count) {
  if (count == 1) return to_float(parts[first][i]);
  const float sum =
      tree_of(parts, i, first, count / 2) + tree_of(parts, i, first + count / 2, count / 2);
  return to_float(from_float<T>(sum));
}

template <class T>
int64_t differences(const std::vector<T>& left, const std::vector<T>& right) {
  const std::vector<T> got = sum_of<T>({left, right});
  int64_t count = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const float sum = to_float(left[i]) + to_float(right[i]);
    const T want = from_float<T>(sum);
    // Which of two NaN payloads an addition keeps is the compiler's choice.
    count += got[i].bits == want.bits || (std::isnan(sum) && std::isnan(to_float(got[i]))) ? 0 : 1;
  }
  return count;
}

}  // namespace

TEMPLATE_TEST_CASE("all 16-bit numbers are widened and narrowed as elsewhere", "[comm]", Float16,
                   BFloat16) {
  std::vector<TestType> all;
  for (uint32_t bits = 0; bits < 65536; ++bits) all.push_back({static_cast<uint16_t>(bits)});
  for (const float other : {0.0f, 1.0f, -3.0e-5f, 5.9604645e-8f, 65504.0f, -1.0e-7f, 2048.5f}) {
    const std::vector<TestType> right(all.size(), from_float<TestType>(other));
    INFO("added " << other);
    CHECK(differences(all, right) == 0);
  }
  std::vector<TestType> rotated = all;
  for (size_t i = 0; i < all.size(); ++i) rotated[i] = all[(i * 40503 + 77) % all.size()];
  CHECK(differences(all, rotated) == 0);
}

TEST_CASE("a sum of fp32 parts rounds like scalar additions in ascending order", "[comm]") {
  std::vector<std::vector<float>> parts(5, std::vector<float>(2051));
  uint32_t state = 1;
  for (std::vector<float>& part : parts) {
    for (float& value : part) {
      state = state * 1664525u + 1013904223u;
      value = std::ldexp(static_cast<float>(state >> 8), static_cast<int>(state % 40) - 40);
    }
  }
  const std::vector<float> got = sum_of<float>(parts);
  int64_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    volatile float sum = parts[0][i];
    for (size_t part = 1; part < parts.size(); ++part) sum = sum + parts[part][i];
    wrong += std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(float{sum}) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("a tree of sums rounds each of them", "[comm]", float, BFloat16, Float16) {
  for (const size_t members : {1, 2, 4, 8}) {
    std::vector<std::vector<TestType>> parts(members, std::vector<TestType>(2051));
    uint32_t state = 7;
    for (std::vector<TestType>& part : parts) {
      for (TestType& value : part) {
        state = state * 1664525u + 1013904223u;
        value = from_float<TestType>(static_cast<float>(state >> 8) * 0x1p-24f - 0.5f);
      }
    }
    const std::vector<TestType> got = sum_of<TestType>(parts, SumOrder::kTree);
    int64_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      wrong += to_float(got[i]) == tree_of(parts, i, 0, members) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace plait::test
