// Boxes against brute force over their elements.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store/boxes.h"
#include "kernels/base/error.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

using Draw = std::mt19937_64;

int64_t draw(Draw& random, int64_t first, int64_t last) {
  return std::uniform_int_distribution<int64_t>(first, last)(random);
}

Box make_box(const std::vector<int64_t>& first, const std::vector<int64_t>& size) {
  Box box;
  box.dims = static_cast<int>(first.size());
  std::copy(first.begin(), first.end(), box.first.begin());
  std::copy(size.begin(), size.end(), box.size.begin());
  return box;
}

/// Of 1 to 4 dims, anywhere.
Box random_whole(Draw& random, int64_t most) {
  Box box;
  box.dims = static_cast<int>(draw(random, 1, 4));
  for (int dim = 0; dim < box.dims; ++dim) {
    box.first[dim] = draw(random, 0, 9);
    box.size[dim] = draw(random, 1, most);
  }
  return box;
}

Box random_part(Draw& random, const Box& whole) {
  Box box = whole;
  for (int dim = 0; dim < box.dims; ++dim) {
    box.size[dim] = draw(random, 1, whole.size[dim]);
    box.first[dim] += draw(random, 0, whole.size[dim] - box.size[dim]);
  }
  return box;
}

using Place = std::array<int64_t, Shape::kMaxDims>;

/// Row-major.
std::vector<Place> places(const Box& box) {
  std::vector<Place> all;
  const auto walk = [&](const auto& self, Place at, int dim) -> void {
    if (dim == box.dims) {
      all.push_back(at);
      return;
    }
    for (int64_t i = 0; i < box.size[dim]; ++i) {
      at[dim] = box.first[dim] + i;
      self(self, at, dim + 1);
    }
  };
  walk(walk, Place{}, 0);
  return all;
}

std::vector<Place> places(const std::vector<Box>& boxes) {
  std::vector<Place> all;
  for (const Box& box : boxes) {
    const std::vector<Place> part = places(box);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// Halves boxes at random until there are about `count`.
std::vector<Box> random_partition(Draw& random, const Box& whole, size_t count) {
  std::vector<Box> boxes = {whole};
  for (size_t tries = 0; boxes.size() < count && tries < 8 * count; ++tries) {
    const size_t at = static_cast<size_t>(draw(random, 0, static_cast<int64_t>(boxes.size()) - 1));
    const int dim = static_cast<int>(draw(random, 0, whole.dims - 1));
    Box lower = boxes[at], upper = boxes[at];
    if (lower.size[dim] < 2) continue;
    const int64_t cut = draw(random, 1, lower.size[dim] - 1);
    lower.size[dim] = cut;
    upper.first[dim] += cut;
    upper.size[dim] -= cut;
    boxes[at] = lower;
    boxes.push_back(upper);
  }
  std::shuffle(boxes.begin(), boxes.end(), random);
  return boxes;
}

std::map<Place, int> count_places(const std::vector<Box>& boxes) {
  std::map<Place, int> counts;
  for (const Place& place : places(boxes)) ++counts[place];
  return counts;
}

/// The answer for these boxes is right in every respect.
void require_fault_is_true(const Box& whole, const std::vector<Box>& boxes) {
  const std::map<Place, int> counts = count_places(boxes);
  const std::vector<Place> wanted = places(whole);
  const bool is_twice =
      std::any_of(counts.begin(), counts.end(), [](const auto& one) { return one.second > 1; });
  const auto missing = std::find_if(wanted.begin(), wanted.end(),
                                    [&](const Place& place) { return !counts.count(place); });
  const std::optional<CoverageFault> fault = find_fault(whole, boxes);
  INFO(box_text(whole) << " of " << boxes.size() << " boxes");
  REQUIRE(fault.has_value() == (is_twice || missing != wanted.end()));
  if (!fault) return;
  INFO(box_text(fault->box));
  REQUIRE(fault->box.elements() > 0);
  if (fault->kind == CoverageFault::Kind::kTwice) {
    for (const Place& place : places(fault->box)) REQUIRE(counts.at(place) > 1);
    return;
  }
  REQUIRE_FALSE(is_twice);
  REQUIRE(fault->box.elements() == 1);
  REQUIRE(places(fault->box).front() == *missing);
}

/// Removes, doubles, moves or grows one box.
void spoil(Draw& random, const Box& whole, std::vector<Box>* boxes) {
  const size_t at = static_cast<size_t>(draw(random, 0, static_cast<int64_t>(boxes->size()) - 1));
  Box& box = (*boxes)[at];
  const int dim = static_cast<int>(draw(random, 0, whole.dims - 1));
  const int64_t end = whole.first[dim] + whole.size[dim];
  switch (draw(random, 0, 4)) {
    case 0:
      boxes->erase(boxes->begin() + static_cast<ptrdiff_t>(at));
      break;
    case 1:
      boxes->push_back(random_part(random, box));
      break;
    case 2:
      if (box.first[dim] + box.size[dim] < end) ++box.first[dim];
      break;
    case 3:
      if (box.first[dim] + box.size[dim] < end) ++box.size[dim];
      break;
    default:
      box = random_part(random, whole);
  }
}

TEST_CASE("a range of a box is cut into few boxes in its order") {
  Draw random(1);
  for (int trial = 0; trial < (test::kIsSanitized ? 300 : 3000); ++trial) {
    const Box box = random_whole(random, 6);
    const int64_t elements = box.elements();
    const int64_t first = draw(random, 0, elements), count = draw(random, 0, elements - first);
    INFO(box_text(box) << " " << first << " " << count);
    const std::vector<Box> parts = cut_range(box, first, count);
    REQUIRE(parts.size() <= static_cast<size_t>(2 * box.dims - 1));
    std::vector<Place> want = places(box);
    want.erase(want.begin() + first + count, want.end());
    want.erase(want.begin(), want.begin() + first);
    REQUIRE(places(parts) == want);
  }
}

TEST_CASE("a range of four dims may take seven boxes, and none takes none") {
  const Box box = make_box({0, 0, 0, 0}, {4, 4, 4, 4});
  CHECK(cut_range(box, 1, 254).size() == 7);
  CHECK(cut_range(box, 0, 256) == std::vector<Box>{box});
  CHECK(cut_range(box, 17, 0).empty());
  CHECK(cut_range(make_box({3}, {0}), 0, 0).empty());
  CHECK_THROWS_AS(cut_range(box, 1, 256), Error);
}

TEST_CASE("two boxes share what their elements share") {
  Draw random(2);
  for (int trial = 0; trial < (test::kIsSanitized ? 200 : 2000); ++trial) {
    const Box whole = random_whole(random, 5);
    const Box a = random_part(random, whole), b = random_part(random, whole);
    std::vector<Place> of_a = places(a), of_b = places(b), want;
    std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                          std::back_inserter(want));
    const std::optional<Box> both = intersect(a, b);
    INFO(box_text(a) << " " << box_text(b));
    REQUIRE(both.has_value() == !want.empty());
    if (both) REQUIRE(places(*both) == want);
  }
}

TEST_CASE("a part is found in a box and copied between boxes, and nothing else is") {
  Draw random(3);
  for (int trial = 0; trial < (test::kIsSanitized ? 200 : 2000); ++trial) {
    const Box whole = random_whole(random, 5);
    const Box from_box = random_part(random, whole), to_box = random_part(random, whole);
    const std::optional<Box> part = intersect(from_box, to_box);
    if (!part) continue;
    const std::vector<Place> from_places = places(from_box), to_places = places(to_box);
    const auto first = std::find(from_places.begin(), from_places.end(), places(*part).front());
    REQUIRE(offset_in(from_box, *part) == first - from_places.begin());

    std::vector<uint16_t> from(from_places.size()), to(to_places.size(), 9999);
    std::iota(from.begin(), from.end(), uint16_t{0});
    std::vector<uint16_t> want = to;
    for (size_t i = 0; i < want.size(); ++i) {
      const auto at = std::find(from_places.begin(), from_places.end(), to_places[i]);
      if (at != from_places.end()) want[i] = from[static_cast<size_t>(at - from_places.begin())];
    }
    copy_part(*part, from_box, from.data(), to_box, to.data(), sizeof(uint16_t));
    INFO(box_text(from_box) << " " << box_text(to_box));
    REQUIRE(to == want);
  }
}

TEST_CASE("boxes that fill a whole once are told from all others") {
  Draw random(4);
  for (int trial = 0; trial < (test::kIsSanitized ? 150 : 1500); ++trial) {
    const Box whole = random_whole(random, 6);
    std::vector<Box> boxes =
        random_partition(random, whole, static_cast<size_t>(draw(random, 1, 60)));
    require_fault_is_true(whole, boxes);
    for (int spoiled = 0; spoiled < 3 && !boxes.empty(); ++spoiled) {
      spoil(random, whole, &boxes);
      require_fault_is_true(whole, boxes);
    }
  }
}

TEST_CASE("many boxes of many dims are told likewise") {
  Draw random(5);
  const std::vector<Box> wholes = {make_box({0, 3}, {60, 50}), make_box({1, 0, 2}, {14, 15, 16}),
                                   make_box({0, 0, 0, 5}, {8, 7, 6, 9})};
  for (const Box& whole : wholes) {
    for (int trial = 0; trial < (test::kIsSanitized ? 3 : 25); ++trial) {
      std::vector<Box> boxes = random_partition(random, whole, 900);
      require_fault_is_true(whole, boxes);
      spoil(random, whole, &boxes);
      require_fault_is_true(whole, boxes);
    }
  }
}

TEST_CASE("single elements, and boxes without any, are told likewise") {
  const Box whole = make_box({2, 2, 2}, {4, 4, 4});
  std::vector<Box> boxes;
  for (const Place& place : places(whole)) {
    boxes.push_back(make_box({place[0], place[1], place[2]}, {1, 1, 1}));
    boxes.push_back(make_box({place[0], place[1], place[2]}, {1, 0, 1}));
  }
  require_fault_is_true(whole, boxes);
  boxes[30] = make_box({2, 2, 2}, {1, 1, 1});  // one twice, one missing
  require_fault_is_true(whole, boxes);
  boxes.clear();
  require_fault_is_true(whole, boxes);
  CHECK_FALSE(find_fault(make_box({0, 0}, {0, 4}), boxes));
  boxes = {make_box({0, 2, 2}, {4, 4, 4})};
  CHECK_THROWS_AS(find_fault(whole, boxes), Error);
}

TEST_CASE("boxes across one another take no quadratic time") {
  // Columns over the whole height beside rows: a sweep over either dim has half of them at a time.
  constexpr int64_t kCount = test::kIsSanitized ? 20'000 : 100'000;
  const Box whole = make_box({0, 0}, {kCount, 2 * kCount});
  std::vector<Box> boxes;
  for (int64_t i = 0; i < kCount; ++i) {
    boxes.push_back(make_box({0, i}, {kCount, 1}));
    boxes.push_back(make_box({i, kCount}, {1, kCount}));
  }
  CHECK_FALSE(find_fault(whole, boxes));
  const Box last = boxes.back();
  boxes.back().size[1] -= 1;
  const auto missing = find_fault(whole, boxes);
  REQUIRE(missing);
  CHECK(missing->kind == CoverageFault::Kind::kMissing);
  CHECK(missing->box == make_box({kCount - 1, 2 * kCount - 1}, {1, 1}));
  boxes.back() = last;
  boxes.push_back(make_box({kCount / 2, kCount / 3}, {1, 1}));
  const auto twice = find_fault(whole, boxes);
  REQUIRE(twice);
  CHECK(twice->kind == CoverageFault::Kind::kTwice);
  CHECK(twice->box == boxes.back());
}

TEST_CASE("replicas are given to whoever has the fewest bytes, ties to the lowest") {
  Draw random(6);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> bytes(static_cast<size_t>(draw(random, 0, 40)));
    for (int64_t& one : bytes) one = draw(random, 0, 5);
    std::vector<int64_t> loads(static_cast<size_t>(draw(random, 1, 7)));
    for (int64_t& one : loads) one = draw(random, 0, 9);
    std::vector<int64_t> want_loads = loads, want;
    for (const int64_t one : bytes) {
      const auto least = std::min_element(want_loads.begin(), want_loads.end());
      *least += one;
      want.push_back(least - want_loads.begin());
    }
    REQUIRE(assign_replicas(bytes, &loads) == want);
    REQUIRE(loads == want_loads);
  }
}

TEST_CASE("a box reads as its ranges") {
  CHECK(box_text(make_box({0, 8}, {4, 8})) == "[0:4,8:16]");
  CHECK(box_text(make_box({5}, {1})) == "[5:6]");
}

}  // namespace
}  // namespace plait
