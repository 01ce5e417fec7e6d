// The digest of tensors: known answers, sums over any partition, and that every change shows.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/digest.h"
#include "kernels/base/error.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

using test::kIsSanitized;

constexpr DType kDigestTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                                  DType::kInt32,   DType::kInt64,    DType::kUInt8};

std::string random_bytes(size_t count, std::mt19937_64* random) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

int64_t random_below(int64_t limit, std::mt19937_64* random) {
  return static_cast<int64_t>((*random)() % static_cast<uint64_t>(limit));
}

Shape digest_shape(int dims, std::mt19937_64* random) {
  const int64_t most = dims == 1 ? 300 : dims == 2 ? 17 : 7;
  const auto size = [&] { return 1 + random_below(most, random); };
  switch (dims) {
    case 1:
      return {size()};
    case 2:
      return {size(), size()};
    case 3:
      return {size(), size(), size()};
    default:
      return {size(), size(), size(), size()};
  }
}

/// Cuts a box at random places along random dims.
void cut_at_random(const Box& box, int cuts, std::mt19937_64* random, std::vector<Box>* out) {
  const auto dim = static_cast<size_t>(random_below(box.dims, random));
  if (cuts == 0 || box.size[dim] < 2) {
    out->push_back(box);
    return;
  }
  const int64_t at = 1 + random_below(box.size[dim] - 1, random);
  Box lower = box, upper = box;
  lower.size[dim] = at;
  upper.first[dim] += at;
  upper.size[dim] -= at;
  cut_at_random(lower, cuts - 1, random, out);
  cut_at_random(upper, cuts - 1, random, out);
}

/// Calls `body(place in the box, index in the tensor)` for each element, in order.
template <class Body>
void walk_box(const Box& box, const Shape& shape, const Body& body) {
  std::array<int64_t, Shape::kMaxDims> at{};
  for (int64_t n = 0; n < box.elements(); ++n) {
    int64_t rest = n, index = 0;
    for (int d = box.dims - 1; d >= 0; --d) {
      at[static_cast<size_t>(d)] = rest % box.size[static_cast<size_t>(d)];
      rest /= box.size[static_cast<size_t>(d)];
    }
    for (int d = 0; d < box.dims; ++d) {
      index = index * shape[d] + box.first[static_cast<size_t>(d)] + at[static_cast<size_t>(d)];
    }
    body(n, index);
  }
}

uint64_t pattern_at(const std::string& bytes, int64_t place, int64_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + place * size, static_cast<size_t>(size));
  return bits;
}

/// By the definition.
uint64_t plain_digest(const std::string& bytes, int64_t size) {
  uint64_t sum = 0;
  const auto count = static_cast<int64_t>(bytes.size()) / size;
  for (int64_t i = 0; i < count; ++i) {
    sum += digest_mix(pattern_at(bytes, i, size), static_cast<uint64_t>(i));
  }
  return sum;
}

uint64_t whole_digest(const std::string& bytes, DType dtype) {
  return digest_run(bytes.data(), dtype, static_cast<int64_t>(bytes.size()) / dtype_size(dtype), 0);
}

TEST_CASE("known answers of the digest") {
  static_assert(digest_mix(0, 0) == 0xe220a8397b1dcdaf);
  static_assert(digest_mix(0x3f800000, 0) == 0x7fefab40868a16a4);
  static_assert(digest_mix(0x3f800000, 1) == 0x1a4d457e0cce229f);
  static_assert(digest_mix(0xffffffff, uint64_t{1} << 32) == 0x97c91606680b6648);
  const float values[6] = {0, 1, 2, 3, 4, 5};
  const Shape shape{2, 3};
  const Box column{{0, 0}, {2, 1}, 2}, others{{0, 1}, {2, 2}, 2};
  const float column_values[2] = {0, 3}, other_values[4] = {1, 2, 4, 5};
  CHECK(digest_run(values, DType::kFloat32, 6, 0) == 0x41974a884a9f4259);
  CHECK(digest_box(values, DType::kFloat32, Box::whole(shape), shape) == 0x41974a884a9f4259);
  CHECK(digest_box(column_values, DType::kFloat32, column, shape) == 0x8f0c06866ae6fd7d);
  CHECK(digest_box(other_values, DType::kFloat32, others, shape) == 0xb28b4401dfb844dc);
  uint16_t bf16[6];
  for (int i = 0; i < 6; ++i) bf16[i] = to_bfloat16(values[i]).bits;
  CHECK(digest_run(bf16, DType::kBFloat16, 6, 0) == 0xf2ba4ce53107dc6e);
  CHECK(digest_run(values, DType::kFloat32, 0, 5) == 0);
  // Beyond 2^32 elements, where the tensor itself is nowhere.
  const uint32_t ones = 0xffffffff;
  const Shape huge{int64_t{1} << 20, int64_t{1} << 20};
  const Box far{{4096, 0}, {1, 1}, 2};
  CHECK(digest_box(&ones, DType::kInt32, far, huge) == 0x97c91606680b6648);
}

TEST_CASE("a run has the digest of its definition, at any place in memory") {
  std::mt19937_64 random(3);
  for (const DType dtype : kDigestTypes) {
    const int64_t size = dtype_size(dtype);
    for (int64_t count = 0; count < 20; ++count) {
      const std::string bytes = random_bytes(static_cast<size_t>(count * size), &random);
      const std::string shifted = "x" + bytes;
      CHECK(whole_digest(bytes, dtype) == plain_digest(bytes, size));
      CHECK(digest_run(shifted.data() + 1, dtype, count, 0) == plain_digest(bytes, size));
    }
  }
}

TEST_CASE("random partitions of tensors add up to the whole") {
  std::mt19937_64 random(4);
  const int rounds = kIsSanitized ? 4 : 20;
  for (const DType dtype : kDigestTypes) {
    const int64_t size = dtype_size(dtype);
    for (int round = 0; round < rounds * 4; ++round) {
      const Shape shape = digest_shape(1 + round % 4, &random);
      const std::string whole = random_bytes(static_cast<size_t>(shape.elements() * size), &random);
      std::vector<Box> boxes;
      cut_at_random(Box::whole(shape), 5, &random, &boxes);
      uint64_t sum = 0, chunks = 0;
      for (const Box& box : boxes) {
        std::string part(static_cast<size_t>(box.elements() * size), '\0');
        walk_box(box, shape, [&](int64_t n, int64_t index) {
          part.replace(static_cast<size_t>(n * size), static_cast<size_t>(size), whole,
                       static_cast<size_t>(index * size), static_cast<size_t>(size));
        });
        sum += digest_box(part.data(), dtype, box, shape);
        for (int64_t done = 0; done < box.elements();) {
          const int64_t count = 1 + random_below(box.elements() - done, &random);
          chunks += digest_part(part.data() + done * size, dtype, box, shape, done, count);
          done += count;
        }
      }
      INFO(dtype_name(dtype) << ' ' << shape.text() << " in " << boxes.size());
      const uint64_t expected = plain_digest(whole, size);
      REQUIRE(whole_digest(whole, dtype) == expected);
      REQUIRE(sum == expected);
      REQUIRE(chunks == expected);
    }
  }
}

TEST_CASE("every bit, every swap and every shift changes the digest") {
  std::mt19937_64 random(5);
  for (const DType dtype : kDigestTypes) {
    const int64_t size = dtype_size(dtype);
    constexpr int64_t kRows = 4, kColumns = 6;
    const std::string bytes = random_bytes(static_cast<size_t>(kRows * kColumns * size), &random);
    const uint64_t digest = whole_digest(bytes, dtype);
    std::set<uint64_t> seen{digest};
    const auto require_new = [&](const std::string& changed) {
      if (changed != bytes) REQUIRE(seen.insert(whole_digest(changed, dtype)).second);
    };
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::string changed = bytes;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
      require_new(changed);
    }
    const auto element = static_cast<size_t>(size);
    for (size_t a = 0; a < kRows * kColumns; ++a) {
      for (size_t b = a + 1; b < kRows * kColumns; ++b) {
        std::string changed = bytes;
        std::swap_ranges(changed.begin() + static_cast<int64_t>(a * element),
                         changed.begin() + static_cast<int64_t>((a + 1) * element),
                         changed.begin() + static_cast<int64_t>(b * element));
        require_new(changed);
      }
    }
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t shift = 1; shift < kColumns; ++shift) {
        std::string changed = bytes;
        const auto start = changed.begin() + row * kColumns * size;
        std::rotate(start, start + shift * size, start + kColumns * size);
        require_new(changed);
      }
    }
  }
}

TEST_CASE("zeros of another sign and payloads of NaN count as bits") {
  const uint32_t patterns[] = {0, 0x80000000, 0x7fc00000, 0x7fc00001, 0xffc00000, 0x7f800000};
  std::set<uint64_t> seen;
  for (const uint32_t bits : patterns) seen.insert(digest_run(&bits, DType::kFloat32, 1, 0));
  CHECK(seen.size() == std::size(patterns));
}

TEST_CASE("a box outside its tensor has no digest") {
  const float values[4] = {};
  const Shape shape{2, 2};
  const auto of = [&](const Box& box) { return digest_box(values, DType::kFloat32, box, shape); };
  CHECK_THROWS_AS(of({{0, 1}, {2, 2}, 2}), Error);
  CHECK_THROWS_AS(of({{-1, 0}, {2, 2}, 2}), Error);
  CHECK_THROWS_AS(of({{0}, {2}, 1}), Error);
  CHECK(of({{0, 0}, {0, 2}, 2}) == 0);
}

}  // namespace
}  // namespace plait
