#include "checkpoint/store/boxes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <queue>
#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

using BoxDims = std::array<int64_t, Shape::kMaxDims>;

/// Elements from one index of a dim to the next.
BoxDims box_strides(const Box& box) {
  BoxDims strides{};
  int64_t stride = 1;
  for (int dim = box.dims - 1; dim >= 0; --dim) {
    strides[dim] = stride;
    stride *= box.size[dim];
  }
  return strides;
}

/// Cuts a range of the part of a box in which the dims before `dim` are fixed.
class RangeCutter {
 public:
  explicit RangeCutter(const Box& box) : part_(box), box_(box), strides_(box_strides(box)) {}

  void cut(int dim, int64_t first, int64_t count) {
    if (count == 0) return;
    if (dim == box_.dims - 1) {
      emit(dim, first, count);
      return;
    }
    const int64_t stride = strides_[dim];
    const int64_t row = first / stride, start = first % stride;
    if (start != 0 || count < stride) {
      const int64_t here = std::min(count, stride - start);
      cut_row(dim, row, start, here);
      cut(dim, first + here, count - here);
      return;
    }
    const int64_t rows = count / stride;
    emit(dim, row, rows);
    cut_row(dim, row + rows, 0, count - rows * stride);
  }

  std::vector<Box> take() { return std::move(boxes_); }

 private:
  void cut_row(int dim, int64_t row, int64_t start, int64_t count) {
    if (count == 0) return;
    part_.first[dim] = box_.first[dim] + row;
    part_.size[dim] = 1;
    cut(dim + 1, start, count);
  }

  /// Rows [row, row + rows) of `dim`, whole in the dims after it.
  void emit(int dim, int64_t row, int64_t rows) {
    part_.first[dim] = box_.first[dim] + row;
    part_.size[dim] = rows;
    for (int inner = dim + 1; inner < box_.dims; ++inner) {
      part_.first[inner] = box_.first[inner];
      part_.size[inner] = box_.size[inner];
    }
    boxes_.push_back(part_);
  }

  Box part_;
  const Box& box_;
  const BoxDims strides_;
  std::vector<Box> boxes_;
};

bool is_inside(const Box& outer, const Box& inner) {
  if (outer.dims != inner.dims) return false;
  for (int dim = 0; dim < outer.dims; ++dim) {
    if (inner.first[dim] < outer.first[dim]) return false;
    if (inner.first[dim] + inner.size[dim] > outer.first[dim] + outer.size[dim]) return false;
  }
  return true;
}

}  // namespace

std::vector<Box> cut_range(const Box& box, int64_t first, int64_t count) {
  check(box.dims > 0 && first >= 0 && count >= 0 && count <= box.elements() - first,
        "a range of a box lies inside it");
  RangeCutter cutter(box);
  cutter.cut(0, first, count);
  return cutter.take();
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  check(a.dims == b.dims, "boxes of one tensor have its dims");
  Box both;
  both.dims = a.dims;
  for (int dim = 0; dim < a.dims; ++dim) {
    const int64_t first = std::max(a.first[dim], b.first[dim]);
    const int64_t end = std::min(a.first[dim] + a.size[dim], b.first[dim] + b.size[dim]);
    if (end <= first) return std::nullopt;
    both.first[dim] = first;
    both.size[dim] = end - first;
  }
  return both;
}

int64_t offset_in(const Box& outer, const Box& inner) {
  const BoxDims strides = box_strides(outer);
  int64_t offset = 0;
  for (int dim = 0; dim < outer.dims; ++dim) {
    offset += (inner.first[dim] - outer.first[dim]) * strides[dim];
  }
  return offset;
}

void copy_part(const Box& part, const Box& from_box, const void* from, const Box& to_box, void* to,
               int64_t element_bytes) {
  check(is_inside(from_box, part) && is_inside(to_box, part), "a part lies in both boxes");
  if (part.elements() == 0) return;
  const BoxDims from_strides = box_strides(from_box), to_strides = box_strides(to_box);
  // Dims from `inner` on lie in one run in both boxes.
  int inner = std::max(part.dims - 1, 0);
  while (inner > 0 && part.size[inner] == from_box.size[inner] &&
         part.size[inner] == to_box.size[inner]) {
    --inner;
  }
  int64_t run = element_bytes;
  for (int dim = inner; dim < part.dims; ++dim) run *= part.size[dim];

  const char* source = static_cast<const char*>(from) + offset_in(from_box, part) * element_bytes;
  char* target = static_cast<char*>(to) + offset_in(to_box, part) * element_bytes;
  BoxDims at{};
  for (;;) {
    int64_t source_offset = 0, target_offset = 0;
    for (int dim = 0; dim < inner; ++dim) {
      source_offset += at[dim] * from_strides[dim];
      target_offset += at[dim] * to_strides[dim];
    }
    std::memcpy(target + target_offset * element_bytes, source + source_offset * element_bytes,
                static_cast<size_t>(run));
    int dim = inner - 1;
    while (dim >= 0 && ++at[dim] == part.size[dim]) at[dim--] = 0;
    if (dim < 0) return;
  }
}

std::vector<int64_t> assign_replicas(std::span<const int64_t> bytes, std::vector<int64_t>* loads) {
  check(!loads->empty(), "someone writes each box");
  using Load = std::pair<int64_t, int64_t>;  // bytes, coordinate
  std::priority_queue<Load, std::vector<Load>, std::greater<Load>> least;
  for (size_t i = 0; i < loads->size(); ++i) least.emplace((*loads)[i], static_cast<int64_t>(i));
  std::vector<int64_t> owners;
  owners.reserve(bytes.size());
  for (const int64_t box_bytes : bytes) {
    const auto [load, coordinate] = least.top();
    least.pop();
    least.emplace(load + box_bytes, coordinate);
    (*loads)[static_cast<size_t>(coordinate)] = load + box_bytes;
    owners.push_back(coordinate);
  }
  return owners;
}

std::string box_text(const Box& box) {
  std::string text = "[";
  for (int dim = 0; dim < box.dims; ++dim) {
    if (dim > 0) text += ',';
    text += std::to_string(box.first[dim]) + ':';
    text += std::to_string(box.first[dim] + box.size[dim]);
  }
  return text + "]";
}

}  // namespace plait
