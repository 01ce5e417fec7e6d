// Collectives of ranks as threads, bit for bit against sums in ascending order. CHECK belongs to
// one thread: ranks leave their results in vectors of their own.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/comm/mesh.h"
#include "tests/engine/comm/ordered_values.h"

namespace plait::test {
namespace {

constexpr int64_t kMostRanks = 9;
const std::vector<int64_t> kCounts = {0, 1, 2, 7, 64, 1000, 100003};

/// The same as parts, the largest a share of its whole.
std::vector<int64_t> part_counts(int64_t world) {
  std::vector<int64_t> counts = kCounts;
  counts.back() = counts.back() / world;
  return counts;
}

/// One result for each count, by rank.
template <class T>
using Results = std::vector<std::vector<std::vector<T>>>;

}  // namespace

TEMPLATE_TEST_CASE("all_reduce adds in ascending order on all members", "[comm]", float, BFloat16,
                   Float16) {
  for (int64_t world = 1; world <= kMostRanks; ++world) {
    const std::unique_ptr<Fabric> fabric = thread_fabric(world);
    Results<TestType> results(static_cast<size_t>(world));
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

TEMPLATE_TEST_CASE("reduce_scatter leaves each member its part of the sum", "[comm]", float,
                   BFloat16, Float16) {
  const bool is_in_place = GENERATE(false, true);
  for (int64_t world = 1; world <= kMostRanks; ++world) {
    const std::unique_ptr<Fabric> fabric = thread_fabric(world);
    Results<TestType> results(static_cast<size_t>(world)), sources(static_cast<size_t>(world));
    run_world(*fabric, [&](Communicator& group) {
      const auto rank = static_cast<size_t>(group.index());
      for (int64_t count : part_counts(world)) {
        std::vector<TestType> from = part_of<TestType>(group.index(), count * world);
        std::vector<TestType> to(static_cast<size_t>(count));
        const TensorView own = view_of(from, group.index() * count, count);
        group.reduce_scatter(view_of(from), is_in_place ? own : view_of(to));
        if (is_in_place) to = slice_of(from, group.index() * count, count);
        results[rank].push_back(std::move(to));
        sources[rank].push_back(std::move(from));
      }
    });
    for (size_t i = 0; i < kCounts.size(); ++i) {
      const int64_t count = part_counts(world)[i];
      const std::vector<TestType> sum = ordered_sum_of<TestType>(world, count * world);
      for (int64_t rank = 0; rank < world; ++rank) {
        INFO("world " << world << " count " << count << " rank " << rank);
        CHECK(has_same_bits(results[static_cast<size_t>(rank)][i],
                            slice_of(sum, rank * count, count)));
        std::vector<TestType> kept = part_of<TestType>(rank, count * world);
        if (is_in_place) {
          std::copy_n(sum.begin() + rank * count, count, kept.begin() + rank * count);
        }
        CHECK(has_same_bits(sources[static_cast<size_t>(rank)][i], kept));
      }
    }
  }
}

TEST_CASE("all_gather joins the parts of all members in order", "[comm]") {
  const bool is_in_place = GENERATE(false, true);
  for (int64_t world = 1; world <= kMostRanks; ++world) {
    const std::unique_ptr<Fabric> fabric = thread_fabric(world);
    Results<float> results(static_cast<size_t>(world));
    run_world(*fabric, [&](Communicator& group) {
      for (int64_t count : part_counts(world)) {
        std::vector<float> own = part_of<float>(group.index(), count);
        std::vector<float> to(static_cast<size_t>(count * world), -1);
        const TensorView place = view_of(to, group.index() * count, count);
        if (is_in_place) std::copy(own.begin(), own.end(), place.as<float>());
        group.all_gather(is_in_place ? place : view_of(own), view_of(to));
        results[static_cast<size_t>(group.index())].push_back(std::move(to));
      }
    });
    for (size_t i = 0; i < kCounts.size(); ++i) {
      const int64_t count = part_counts(world)[i];
      std::vector<float> expected;
      for (int64_t rank = 0; rank < world; ++rank) {
        const std::vector<float> part = part_of<float>(rank, count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      for (const std::vector<std::vector<float>>& result : results) {
        INFO("world " << world << " count " << count);
        CHECK(has_same_bits(result[i], expected));
      }
    }
  }
}

TEST_CASE("broadcast and plain bytes reach every member", "[comm]") {
  for (int64_t world = 1; world <= kMostRanks; ++world) {
    const std::unique_ptr<Fabric> fabric = thread_fabric(world);
    std::vector<int64_t> wrong(static_cast<size_t>(world));
    run_world(*fabric, [&](Communicator& group) {
      int64_t& errors = wrong[static_cast<size_t>(group.index())];
      for (int64_t root = 0; root < world; ++root) {
        for (int64_t count : kCounts) {
          std::vector<float> buffer = part_of<float>(group.index(), count);
          group.broadcast(view_of(buffer), root);
          errors += has_same_bits(buffer, part_of<float>(root, count)) ? 0 : 1;
        }
        std::string text = group.index() == root ? "seventeen bytes ok" : "..................";
        group.broadcast_bytes(text.data(), static_cast<int64_t>(text.size()), root);
        errors += text == "seventeen bytes ok" ? 0 : 1;
      }
      const auto own = static_cast<uint8_t>(group.index());
      std::vector<uint8_t> all(static_cast<size_t>(world), 255);
      group.all_gather_bytes(&own, 1, all.data());
      for (int64_t i = 0; i < world; ++i) errors += all[static_cast<size_t>(i)] == i ? 0 : 1;
      group.barrier();
    });
    for (int64_t errors : wrong) CHECK(errors == 0);
  }
}

TEST_CASE("a barrier holds until the last member is there", "[comm]") {
  constexpr int64_t kWorld = 5;
  const std::unique_ptr<Fabric> fabric = thread_fabric(kWorld);
  std::atomic<int64_t> arrived{0};
  std::atomic<int64_t> early{0};
  run_world(*fabric, [&](Communicator& group) {
    for (int64_t round = 1; round <= 50; ++round) {
      arrived.fetch_add(1);
      group.barrier();
      if (arrived.load() < round * kWorld) early.fetch_add(1);
      group.barrier();
    }
  });
  CHECK(early.load() == 0);
}

TEST_CASE("a sum of many bfloat16 is rounded once", "[comm]") {
  constexpr int64_t kWorld = 9;
  const int64_t count = GENERATE(16, 30000);  // whole buffers; slices
  const std::unique_ptr<Fabric> fabric = thread_fabric(kWorld);
  std::vector<float> sums(kWorld);
  run_world(*fabric, [&](Communicator& group) {
    // 256 + 8·0.75: added in bfloat16, whose step there is 2, nothing would be left of the rest.
    const float own = group.index() == 0 ? 256.0f : 0.75f;
    std::vector<BFloat16> buffer(static_cast<size_t>(count), to_bfloat16(own));
    group.all_reduce(view_of(buffer));
    sums[static_cast<size_t>(group.index())] = to_float(buffer.back());
  });
  for (float sum : sums) CHECK(sum == 262.0f);
}

TEST_CASE("a maximum keeps NaN, whoever has it", "[comm]") {
  const int64_t world = GENERATE(2, 3, 5);
  const int64_t count = GENERATE(16, 20000);
  const std::unique_ptr<Fabric> fabric = thread_fabric(world);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<std::vector<float>> results(static_cast<size_t>(world));
  run_world(*fabric, [&](Communicator& group) {
    std::vector<float> buffer(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      float& value = buffer[static_cast<size_t>(i)];
      value = static_cast<float>((group.index() * 7 + i) % world) - 3.0f;
      if (i < world && group.index() == i) value = nan;
      if (i < world && group.index() == (i + 1) % world) value = infinity;
      if (i == world) value = -infinity;
    }
    group.all_reduce_max(view_of(buffer));
    results[static_cast<size_t>(group.index())] = std::move(buffer);
  });
  for (const std::vector<float>& result : results) {
    for (int64_t i = 0; i < world; ++i) CHECK(std::isnan(result[static_cast<size_t>(i)]));
    CHECK(result[static_cast<size_t>(world)] == -infinity);
    bool is_right = true;
    for (int64_t i = world + 1; i < count; ++i) {
      is_right = is_right && result[static_cast<size_t>(i)] == static_cast<float>(world - 1) - 3.0f;
    }
    CHECK(is_right);
  }
}

TEST_CASE("collectives in two halves give the bits of whole ones", "[comm]") {
  const int64_t world = GENERATE(1, 2, 3, 4);
  const int64_t count = GENERATE(5, 25000);
  const std::unique_ptr<Fabric> fabric = thread_fabric(world);
  std::vector<int64_t> wrong(static_cast<size_t>(world));
  run_world(*fabric, [&](Communicator& group) {
    int64_t& errors = wrong[static_cast<size_t>(group.index())];
    const int64_t all = count * world;
    const std::vector<float> sum = ordered_sum_of<float>(world, all);
    std::vector<float> buffer = part_of<float>(group.index(), all);
    group.start_all_reduce(view_of(buffer));
    group.finish();
    errors += has_same_bits(buffer, sum) ? 0 : 1;

    buffer = part_of<float>(group.index(), all);
    std::vector<float> part(static_cast<size_t>(count));
    group.start_reduce_scatter(view_of(buffer), view_of(part));
    group.finish();
    errors += has_same_bits(part, slice_of(sum, group.index() * count, count)) ? 0 : 1;

    group.start_all_gather(view_of(part), view_of(buffer));
    group.finish();
    errors += has_same_bits(buffer, sum) ? 0 : 1;
    try {
      group.finish();
      ++errors;
    } catch (const Error& error) {
      errors += error.word() == "invariant" ? 0 : 1;
    }
  });
  for (int64_t errors : wrong) CHECK(errors == 0);
}

TEST_CASE("the pool's threads change no bit", "[comm]") {
  constexpr int64_t kWorld = 2, kCount = 300001;
  const std::vector<float> expected = ordered_sum_of<float>(kWorld, kCount);
  const std::unique_ptr<Fabric> fabric = thread_fabric(kWorld, 20'000, GENERATE(false, true));
  std::vector<std::vector<float>> results(kWorld);
  const Outcomes outcomes = run_ranks({fabric.get()}, [&](int64_t rank) {
    ThreadPool pool(3, {}, false);
    Communicator group(fabric->endpoint(rank), "world", 1, first_ranks(kWorld), &pool);
    for (int round = 0; round < 3; ++round) {
      results[static_cast<size_t>(rank)] = part_of<float>(rank, kCount);
      group.all_reduce(view_of(results[static_cast<size_t>(rank)]));
    }
  });
  for (const std::optional<Error>& outcome : outcomes) CHECK(!outcome);
  for (const std::vector<float>& result : results) CHECK(has_same_bits(result, expected));
}

TEST_CASE("groups of one rank do not disturb each other", "[comm]") {
  const Mesh mesh(2, 2, 3);
  const std::unique_ptr<Fabric> fabric = thread_fabric(mesh.world());
  constexpr int64_t kCount = 5000;
  std::vector<int64_t> wrong(static_cast<size_t>(mesh.world()));
  const auto value = [](int64_t rank, int64_t round) {
    return static_cast<float>(rank * 3 + round * 100);
  };
  const Outcomes outcomes = run_ranks({fabric.get()}, [&](int64_t rank) {
    Communicator tensor(fabric->endpoint(rank), "tensor", 1, mesh.group(Axis::kTensor, rank),
                        nullptr);
    Communicator data(fabric->endpoint(rank), "data", 2, mesh.group(Axis::kData, rank), nullptr);
    Communicator pipeline(fabric->endpoint(rank), "pipeline", 3, mesh.group(Axis::kPipeline, rank),
                          nullptr);
    for (int64_t round = 0; round < 30; ++round) {
      std::vector<float> a(kCount, value(rank, round)), b = a, c = a;
      tensor.start_all_reduce(view_of(a));
      data.start_all_reduce(view_of(b));
      pipeline.all_reduce(view_of(c));
      data.finish();
      tensor.finish();
      const auto expect_sum = [&](const std::vector<float>& got, Axis axis) {
        float sum = 0;
        for (int64_t member : mesh.group(axis, rank)) sum += value(member, round);
        for (float element : got) wrong[static_cast<size_t>(rank)] += element == sum ? 0 : 1;
      };
      expect_sum(a, Axis::kTensor);
      expect_sum(b, Axis::kData);
      expect_sum(c, Axis::kPipeline);
    }
  });
  for (const std::optional<Error>& outcome : outcomes) CHECK(!outcome);
  for (int64_t errors : wrong) CHECK(errors == 0);
}

TEST_CASE("trap 26: a buffer may be overwritten as soon as its call returns", "[comm]") {
  constexpr int64_t kWorld = 4, kCount = 40000;
  const std::unique_ptr<Fabric> fabric = thread_fabric(kWorld);
  std::vector<int64_t> wrong(kWorld);
  run_world(*fabric, [&](Communicator& group) {
    std::vector<float> buffer(kCount), part(kCount / kWorld);
    int64_t& errors = wrong[static_cast<size_t>(group.index())];
    for (int round = 0; round < 60; ++round) {
      const auto own = static_cast<float>(round + group.index());
      const auto sum = static_cast<float>(kWorld * round + 6);
      std::fill(buffer.begin(), buffer.end(), own);
      group.all_reduce(view_of(buffer));
      errors += std::count(buffer.begin(), buffer.end(), sum) == kCount ? 0 : 1;
      std::fill(buffer.begin(), buffer.end(), own);
      group.reduce_scatter(view_of(buffer), view_of(part));
      std::fill(buffer.begin(), buffer.end(), -1.0f);
      errors += std::count(part.begin(), part.end(), sum) == kCount / kWorld ? 0 : 1;
      group.all_gather(view_of(part), view_of(buffer));
      std::fill(part.begin(), part.end(), -1.0f);
      errors += std::count(buffer.begin(), buffer.end(), sum) == kCount ? 0 : 1;
      group.broadcast(view_of(buffer), round % kWorld);
      errors += std::count(buffer.begin(), buffer.end(), sum) == kCount ? 0 : 1;
    }
  });
  for (int64_t errors : wrong) CHECK(errors == 0);
}

TEST_CASE("calls that no member could make are refused", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(1);
  Communicator group(fabric->endpoint(0), "world", 1, {0}, nullptr);
  std::vector<int32_t> integers(4);
  std::vector<float> four(4), three(3);
  std::vector<BFloat16> half(4);
  CHECK_THROWS_AS(group.all_reduce(view_of(integers)), Error);
  CHECK_THROWS_AS(group.all_reduce_max(view_of(half)), Error);
  CHECK_THROWS_AS(group.reduce_scatter(view_of(four), view_of(three)), Error);
  CHECK_THROWS_AS(group.all_gather(view_of(three), view_of(four)), Error);
  CHECK_THROWS_AS(group.broadcast(view_of(four), 1), Error);
  CHECK_THROWS_AS(group.send(0, Lane::kForward, {}, view_of(four)), Error);
  group.start_all_reduce(view_of(four));
  CHECK_THROWS_AS(group.barrier(), Error);
  group.finish();
  group.barrier();
  CHECK_THROWS_AS(Communicator(fabric->endpoint(0), "world", 2, {1}, nullptr), Error);
}

}  // namespace plait::test
