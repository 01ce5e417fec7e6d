// Parts of ranks and what collectives make of them, by closed formulas.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/base/tensor.h"
#include "tests/engine/comm/rig.h"

namespace plait::test {

template <class T>
std::vector<T> part_of(int64_t rank, int64_t count) {
  std::vector<T> part(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    part[static_cast<size_t>(i)] = from_float<T>(sample_value(rank, i));
  }
  return part;
}

/// ((x0 + x1) + x2) + … of the parts of ranks 0 … members − 1, in fp32, rounded once.
template <class T>
std::vector<T> ordered_sum_of(int64_t members, int64_t count) {
  std::vector<float> sums(static_cast<size_t>(count));
  for (int64_t rank = 0; rank < members; ++rank) {
    const std::vector<T> part = part_of<T>(rank, count);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = rank == 0 ? to_float(part[i]) : sums[i] + to_float(part[i]);
    }
  }
  std::vector<T> rounded;
  for (float sum : sums) rounded.push_back(from_float<T>(sum));
  return rounded;
}

template <class T>
std::vector<T> slice_of(const std::vector<T>& values, int64_t first, int64_t count) {
  return std::vector<T>(values.begin() + first, values.begin() + first + count);
}

template <class T>
TensorView view_of(std::vector<T>& values, int64_t first, int64_t count) {
  return {values.data() + first, DTypeOf<T>::value, {count}};
}
template <class T>
TensorView view_of(std::vector<T>& values) {
  return view_of(values, 0, static_cast<int64_t>(values.size()));
}

template <class T>
bool has_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace plait::test
