// Collectives of ranks as threads, bit for bit against sums in ascending order.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/engine/comm/rig.h"

namespace plait::test {
namespace {

const std::vector<int64_t> kCounts = {0, 1, 2, 7, 64, 1000, 100003};

template <class T>
std::vector<T> part_of(int64_t rank, int64_t count) {
  std::vector<T> part(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    part[static_cast<size_t>(i)] = from_float<T>(sample_value(rank, i));
  }
  return part;
}

/// ((x0 + x1) + x2) + … of the members' parts in fp32, rounded once.
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

}  // namespace

TEMPLATE_TEST_CASE("all_reduce adds in ascending order on all members", "[comm]", float, BFloat16,
                   Float16) {
  for (int64_t world = 1; world <= 9; ++world) {
    const std::unique_ptr<Fabric> fabric = thread_fabric(world);
    std::vector<std::vector<std::vector<TestType>>> results(static_cast<size_t>(world));
    run_world(*fabric, [&](Communicator& group) {
      for (int64_t count : kCounts) {
        std::vector<TestType> buffer = part_of<TestType>(group.index(), count);
        group.all_reduce(view_of(buffer));
        results[static_cast<size_t>(group.index())].push_back(std::move(buffer));
      }
    });
    for (size_t i = 0; i < kCounts.size(); ++i) {
      const std::vector<TestType> expected = ordered_sum_of<TestType>(world, kCounts[i]);
      for (int64_t rank = 0; rank < world; ++rank) {
        INFO("world " << world << " count " << kCounts[i] << " rank " << rank);
        CHECK(has_same_bits(results[static_cast<size_t>(rank)][i], expected));
      }
    }
  }
}

}  // namespace plait::test
