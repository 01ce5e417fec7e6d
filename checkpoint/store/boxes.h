// Arithmetic of boxes: how states are cut for files and put together again. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/box.h"

namespace plait {

/// The row-major elements [first, first + count) of `box`, as at most 2n − 1 boxes in that order.
std::vector<Box> cut_range(const Box& box, int64_t first, int64_t count);

/// What two boxes of one tensor share; nothing where they share no element.
std::optional<Box> intersect(const Box& a, const Box& b);

/// Row-major index in `outer` of the first element of `inner`, which lies inside it.
int64_t offset_in(const Box& outer, const Box& inner);

/// Copies the elements of `part`, which lies in both, between two boxes stored row-major.
void copy_part(const Box& part, const Box& from_box, const void* from, const Box& to_box, void* to,
               int64_t element_bytes);

/// Boxes that do not make up the whole exactly once.
struct CoverageFault {
  enum class Kind { kMissing, kTwice };
  Kind kind = Kind::kMissing;
  Box box;  ///< twice: what two of them share; missing: one element that none has
};
/// Whether `boxes` fill `whole` exactly once. O(n log n) for boxes cut along the first dim; memory
/// O(n).
std::optional<CoverageFault> find_fault(const Box& whole, std::span<const Box> boxes);

/// Which data coordinate writes each box that all of them hold: in the given order, to the one
/// with the fewest bytes so far, ties to the lowest. `loads` [coordinates] are what each has
/// already, and grow.
std::vector<int64_t> assign_replicas(std::span<const int64_t> bytes, std::vector<int64_t>* loads);

/// "[0:4,8:16]".
std::string box_text(const Box& box);

}  // namespace plait
