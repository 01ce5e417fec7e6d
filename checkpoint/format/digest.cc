#include "checkpoint/format/digest.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr uint64_t kDigestStep = 0x9E3779B97F4A7C15u;

// digest_mix of a pattern whose index is mixed in already.
constexpr uint64_t finish_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// The product of index and constant grows by the constant, and four sums do not wait for each
// other.
template <class Bits>
uint64_t sum_run(const unsigned char* data, int64_t count, uint64_t first) {
  constexpr int64_t kLanes = 4;
  uint64_t sums[kLanes] = {};
  uint64_t place = (first + 1) * kDigestStep;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      Bits bits;
      std::memcpy(&bits, data + (i + lane) * static_cast<int64_t>(sizeof bits), sizeof bits);
      sums[lane] += finish_mix(bits ^ (place + static_cast<uint64_t>(lane) * kDigestStep));
    }
    place += kLanes * kDigestStep;
  }
  uint64_t sum = sums[0] + sums[1] + sums[2] + sums[3];
  for (; i < count; ++i, place += kDigestStep) {
    Bits bits;
    std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    sum += finish_mix(bits ^ place);
  }
  return sum;
}

// The runs of a box that are contiguous in its tensor, one after another.
class BoxRuns {
 public:
  BoxRuns(const Box& box, const Shape& shape) : box_(box) {
    int64_t stride = 1;
    for (int d = box.dims - 1; d >= 0; --d) {
      const auto dim = static_cast<size_t>(d);
      check(box.first[dim] >= 0 && box.size[dim] > 0 && box.size[dim] <= shape[d] &&
                box.first[dim] <= shape[d] - box.size[dim],
            "a box inside its tensor");
      stride_[dim] = stride;
      start_ += box.first[dim] * stride;
      stride *= shape[d];
      // A dim that is whole continues the run of the next outer one.
      if (outer_ == d + 1) {
        length_ *= box.size[dim];
        if (box.size[dim] == shape[d]) --outer_;
      }
    }
    if (outer_ > 0) --outer_;
  }

  // Elements of a run.
  int64_t length() const { return length_; }
  // Index in the tensor of the first element of the current run.
  int64_t start() const { return start_; }

  void skip(int64_t runs) {
    for (int d = outer_ - 1; d >= 0 && runs > 0; --d) {
      const auto dim = static_cast<size_t>(d);
      const int64_t sum = at_[dim] + runs % box_.size[dim];
      runs /= box_.size[dim];
      const int64_t carry = sum >= box_.size[dim] ? 1 : 0;
      runs += carry;
      const int64_t next = sum - carry * box_.size[dim];
      start_ += (next - at_[dim]) * stride_[dim];
      at_[dim] = next;
    }
  }

 private:
  const Box& box_;
  std::array<int64_t, Shape::kMaxDims> stride_{}, at_{};
  int64_t start_ = 0, length_ = 1;
  int outer_ = box_.dims;  // the dims before it are walked
};

}  // namespace

uint64_t digest_run(const void* data, DType dtype, int64_t count, int64_t first) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  const auto index = static_cast<uint64_t>(first);
  switch (dtype_size(dtype)) {
    case 1:
      return sum_run<uint8_t>(bytes, count, index);
    case 2:
      return sum_run<uint16_t>(bytes, count, index);
    case 4:
      return sum_run<uint32_t>(bytes, count, index);
    default:
      return sum_run<uint64_t>(bytes, count, index);
  }
}

uint64_t digest_box(const void* data, DType dtype, const Box& box, const Shape& shape) {
  return digest_part(data, dtype, box, shape, 0, box.elements());
}

uint64_t digest_part(const void* data, DType dtype, const Box& box, const Shape& shape,
                     int64_t first, int64_t count) {
  check(box.dims == shape.dims(), "a box with the dims of its tensor");
  check(first >= 0 && count >= 0 && first <= box.elements() - count, "elements inside the box");
  if (count == 0) return 0;
  BoxRuns runs(box, shape);
  const auto* bytes = static_cast<const unsigned char*>(data);
  int64_t skip = first % runs.length();
  runs.skip(first / runs.length());
  uint64_t sum = 0;
  while (true) {
    const int64_t part = std::min(count, runs.length() - skip);
    sum += digest_run(bytes, dtype, part, runs.start() + skip);
    count -= part;
    if (count == 0) return sum;
    bytes += part * dtype_size(dtype);
    skip = 0;
    runs.skip(1);
  }
}

}  // namespace plait
