// Whether boxes make up a whole exactly once. First, whether two of them share an element: the
// streamed segment tree of Zomorodian and Edelsbrunner, "Fast software for box intersections"
// (2000), which sweeps one dim and recurses over the others, in O(n log^d n) for any boxes and in
// place. Boxes that share nothing fill the whole when their volumes add up to its volume; if not, a
// missing element is found by halving.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "checkpoint/store/boxes.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

int64_t end_of(const Box& box, int dim) { return box.first[dim] + box.size[dim]; }

/// Finds a pair of boxes that share an element.
class OverlapSearch {
 public:
  using Range = std::span<uint32_t>;  ///< indices of boxes, in any order

  explicit OverlapSearch(std::span<const Box> boxes) : boxes_(boxes) {}

  /// What two boxes share.
  std::optional<Box> run(const Box& whole) {
    std::vector<uint32_t> intervals(boxes_.size()), points(boxes_.size());
    std::iota(intervals.begin(), intervals.end(), 0u);
    std::iota(points.begin(), points.end(), 0u);
    const int last = whole.dims - 1;
    search(intervals, points, last, {whole.first[last], end_of(whole, last)});
    return found_;
  }

 private:
  static constexpr size_t kFew = 16;
  struct Extent {
    int64_t first = 0, end = 0;
  };

  /// Pairs of an interval that holds, in `dim`, the first index of a point, within `extent`, which
  /// holds the first indices of all points; both meet in the dims after `dim` already.
  void search(Range intervals, Range points, int dim, Extent extent) {
    if (found_ || intervals.empty() || points.empty()) return;
    if (intervals.size() <= kFew || points.size() <= kFew) return compare_all(intervals, points);
    if (dim == 0) return sweep(intervals, points);
    // Intervals that span the extent hold all points: what is left are the other dims, where either
    // may begin first.
    const auto spanning = std::partition(intervals.begin(), intervals.end(), [&](uint32_t i) {
      return boxes_[i].first[dim] <= extent.first && end_of(boxes_[i], dim) >= extent.end;
    });
    search_below(Range(intervals.begin(), spanning), points, dim);
    const Range rest(spanning, intervals.end());
    if (found_ || rest.empty()) return;

    const int64_t middle = middle_of(points, dim, extent);
    const auto upper = std::partition(points.begin(), points.end(),
                                      [&](uint32_t p) { return boxes_[p].first[dim] < middle; });
    search_half(rest, Range(points.begin(), upper), dim, {extent.first, middle});
    search_half(rest, Range(upper, points.end()), dim, {middle, extent.end});
  }

  void search_half(Range intervals, Range points, int dim, Extent half) {
    const auto meeting = std::partition(intervals.begin(), intervals.end(), [&](uint32_t i) {
      return boxes_[i].first[dim] < half.end && end_of(boxes_[i], dim) > half.first;
    });
    search(Range(intervals.begin(), meeting), points, dim, half);
  }

  void search_below(Range spanning, Range points, int dim) {
    if (spanning.empty()) return;
    const int below = dim - 1;
    Extent extent{boxes_[points[0]].first[below], end_of(boxes_[points[0]], below)};
    for (const Range& range : {spanning, points}) {
      for (const uint32_t i : range) {
        extent.first = std::min(extent.first, boxes_[i].first[below]);
        extent.end = std::max(extent.end, end_of(boxes_[i], below));
      }
    }
    search(spanning, points, below, extent);
    search(points, spanning, below, extent);
  }

  /// An index that has points on both sides, or else parts the one where all of them begin.
  int64_t middle_of(Range points, int dim, Extent extent) {
    const auto median = points.begin() + static_cast<ptrdiff_t>(points.size() / 2);
    std::nth_element(points.begin(), median, points.end(), [&](uint32_t a, uint32_t b) {
      return boxes_[a].first[dim] < boxes_[b].first[dim];
    });
    const int64_t at = boxes_[*median].first[dim];
    return at > extent.first ? at : at + 1;
  }

  void compare_all(Range a, Range b) {
    for (const uint32_t i : a) {
      for (const uint32_t j : b) compare(i, j);
      if (found_) return;
    }
  }

  void sweep(Range intervals, Range points) {
    const auto is_before = [&](uint32_t a, uint32_t b) {
      return boxes_[a].first[0] < boxes_[b].first[0];
    };
    std::sort(intervals.begin(), intervals.end(), is_before);
    std::sort(points.begin(), points.end(), is_before);
    size_t next = 0;
    for (const uint32_t i : intervals) {
      while (next < points.size() && boxes_[points[next]].first[0] < boxes_[i].first[0]) ++next;
      for (size_t p = next; p < points.size(); ++p) {
        if (boxes_[points[p]].first[0] >= end_of(boxes_[i], 0)) break;
        compare(i, points[p]);
        if (found_) return;
      }
    }
  }

  void compare(uint32_t i, uint32_t j) {
    if (i == j || found_) return;
    found_ = intersect(boxes_[i], boxes_[j]);
  }

  std::span<const Box> boxes_;
  std::optional<Box> found_;
};

/// The first element, in row-major order, that is in none of `boxes`, which share nothing.
Box missing_element(const Box& whole, std::span<const Box> boxes) {
  std::vector<Box> near(boxes.begin(), boxes.end());
  Box region = whole;
  for (int dim = 0; dim < whole.dims; ++dim) {
    while (region.size[dim] > 1) {
      Box half = region;
      half.size[dim] = region.size[dim] / 2;
      std::vector<Box> inside;
      int64_t filled = 0;
      for (const Box& box : near) {
        const std::optional<Box> part = intersect(half, box);
        if (!part) continue;
        inside.push_back(*part);
        filled += part->elements();
      }
      if (filled < half.elements()) {
        region = half;
        near = std::move(inside);
      } else {
        region.first[dim] += half.size[dim];
        region.size[dim] -= half.size[dim];
      }
    }
  }
  return region;
}

}  // namespace

std::optional<CoverageFault> find_fault(const Box& whole, std::span<const Box> boxes) {
  check(whole.dims > 0, "a whole has dims");
  std::vector<Box> filled;  // those that hold an element
  filled.reserve(boxes.size());
  for (const Box& box : boxes) {
    check(box.dims == whole.dims, "boxes have the dims of the whole");
    if (std::any_of(box.size.begin(), box.size.begin() + box.dims,
                    [](int64_t size) { return size == 0; })) {
      continue;
    }
    for (int dim = 0; dim < whole.dims; ++dim) {
      check(box.first[dim] >= whole.first[dim] && box.size[dim] > 0 &&
                box.size[dim] <= end_of(whole, dim) - box.first[dim],
            "boxes lie inside the whole");
    }
    filled.push_back(box);
  }
  check(filled.size() <= UINT32_MAX, "boxes can be counted in 32 bits");
  if (const std::optional<Box> shared = OverlapSearch(filled).run(whole)) {
    return CoverageFault{CoverageFault::Kind::kTwice, *shared};
  }
  int64_t volume = 0;
  for (const Box& box : filled) volume += box.elements();
  if (volume == whole.elements()) return std::nullopt;
  return CoverageFault{CoverageFault::Kind::kMissing, missing_element(whole, filled)};
}

}  // namespace plait
