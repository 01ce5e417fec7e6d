#include <compare>
#include <cstddef>
#include <tuple>

#include "checkpoint/format/rules.h"
#include "checkpoint/format/shard_header.h"

namespace plait {
namespace {

// Volume of a box that holds something and whose end is a number.
int64_t checked_box_volume(const Box& box, int64_t slice, const FieldChecker& checker) {
  checker.require_between(box.dims, 1, Shape::kMaxDims, {"slices", slice, "ndim"});
  int64_t volume = 1;
  for (int d = 0; d < Shape::kMaxDims; ++d) {
    const auto dim = static_cast<size_t>(d);
    const FieldPath first{"slices", slice, "off", d}, size{"slices", slice, "ext", d};
    if (d >= box.dims) {
      checker.require_between(box.first[dim], 0, 0, first);
      checker.require_between(box.size[dim], 0, 0, size);
      continue;
    }
    checker.require_between(box.first[dim], 0, INT64_MAX, first);
    checker.require_between(box.size[dim], 1, INT64_MAX, size);
    checker.require(box.size[dim] <= INT64_MAX - box.first[dim], "the end of a box overflows", size,
                    box.size[dim], INT64_MAX - box.first[dim]);
    checker.require(
        !__builtin_mul_overflow(volume, box.size[dim], &volume) && volume <= INT64_MAX / 8,
        "the volume of a box overflows", size, box.size[dim], INT64_MAX / 8);
  }
  return volume;
}

bool ascends(const Slice& a, const Slice& b) {
  return std::tie(a.tensor, a.kind, a.box.first) < std::tie(b.tensor, b.kind, b.box.first);
}

}  // namespace

void check_slices(const ShardIndex& index, int align_log2, const FieldChecker& checker) {
  const std::vector<Slice>& slices = index.slices;
  checker.require_limit(static_cast<int64_t>(slices.size()), FormatLimits::kSlices, {"slices"});
  checker.require(!slices.empty(), "an index without slices", {"slices"}, 0, 1);
  const int64_t align = int64_t{1} << align_log2;
  int64_t end = kShardHeaderBytes;
  for (size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    const auto number = static_cast<int64_t>(i);
    const auto field = [number](const char* name) { return FieldPath{"slices", number, name}; };
    checker.require_between(static_cast<int>(slice.kind), 1, static_cast<int>(StateKind::kExtra),
                            field("kind"));
    const int64_t element = dtype_size(slice.dtype);
    checker.require(element > 0, "an unknown element type", field("dtype"),
                    static_cast<int>(slice.dtype), static_cast<int>(DType::kUInt8));
    const int64_t volume = checked_box_volume(slice.box, number, checker);
    checker.require(slice.bytes == volume * element, "not volume × element size", field("nbytes"),
                    slice.bytes, volume * element);
    checker.require(slice.position % align == 0, "not a multiple of the alignment", field("pos"),
                    slice.position, align);
    checker.require(slice.position >= end, "slices overlap in the shard", field("pos"),
                    slice.position, end);
    checker.require(slice.bytes <= INT64_MAX - slice.position, "the end of a slice overflows",
                    field("pos"), slice.position, INT64_MAX - slice.bytes);
    end = slice.position + slice.bytes;
    checker.require(i == 0 || ascends(slices[i - 1], slice),
                    "slices do not ascend by tensor, kind and first", field("tensor"), slice.tensor,
                    i == 0 ? slice.tensor : slices[i - 1].tensor);
  }
}

}  // namespace plait
