#include "checkpoint/store/step_scatter.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/format/digest.h"
#include "checkpoint/store/boxes.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

void widen_stored(const char* data, DType dtype, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, data + i * 2, 2);
    out[i] = dtype == DType::kBFloat16 ? to_float(BFloat16{bits}) : to_float(Float16{bits});
  }
}

/// Extents and starts of the shared part in slice, target and tensor, dim by dim.
struct PartPlace {
  int64_t slice, target, tensor;                   // extents of the whole dim
  int64_t first_in_slice, first_in_target, first;  // of the part
  int64_t size;                                    // of the part
};

bool is_whole(const PartPlace& dim) {
  return dim.size == dim.slice && dim.size == dim.target && dim.size == dim.tensor;
}

/// `inner` is whole on every side, so the two dims are one.
PartPlace join_dims(const PartPlace& outer, const PartPlace& inner) {
  const int64_t n = inner.size;
  return {outer.slice * n,           outer.target * n, outer.tensor * n, outer.first_in_slice * n,
          outer.first_in_target * n, outer.first * n,  outer.size * n};
}

}  // namespace

ScatterCursor::ScatterCursor(const Slice& slice, const Shape& shape, const ReadTarget* target)
    : target_(target), dtype_(slice.dtype) {
  const std::optional<Box> part = intersect(slice.box, target->box);
  check(part.has_value(), "slice and target share elements");
  std::array<PartPlace, kMaxDims> places{};
  for (int d = 0; d < part->dims; ++d) {
    const PartPlace place{slice.box.size[d],
                          target->box.size[d],
                          shape[d],
                          part->first[d] - slice.box.first[d],
                          part->first[d] - target->box.first[d],
                          part->first[d],
                          part->size[d]};
    if (dims_ > 0 && is_whole(place)) {
      places[dims_ - 1] = join_dims(places[dims_ - 1], place);
    } else {
      places[dims_++] = place;
    }
  }
  int64_t slice_stride = 1, target_stride = 1, tensor_stride = 1;
  for (int d = dims_ - 1; d >= 0; --d) {
    const PartPlace& place = places[d];
    size_[d] = place.size;
    slice_stride_[d] = slice_stride;
    target_stride_[d] = target_stride;
    tensor_stride_[d] = tensor_stride;
    in_slice_ += place.first_in_slice * slice_stride;
    in_target_ += place.first_in_target * target_stride;
    in_tensor_ += place.first * tensor_stride;
    slice_stride *= place.slice;
    target_stride *= place.target;
    tensor_stride *= place.tensor;
  }
}

void ScatterCursor::next_row() {
  done_ = 0;
  for (int d = dims_ - 2; d >= 0; --d) {
    in_slice_ += slice_stride_[d];
    in_target_ += target_stride_[d];
    in_tensor_ += tensor_stride_[d];
    if (++place_[d] < size_[d]) return;
    place_[d] = 0;
    in_slice_ -= size_[d] * slice_stride_[d];
    in_target_ -= size_[d] * target_stride_[d];
    in_tensor_ -= size_[d] * tensor_stride_[d];
  }
  is_done_ = true;
}

void ScatterCursor::feed(const char* data, int64_t first, int64_t count) {
  const int64_t size = dtype_size(dtype_), row = size_[dims_ - 1], end = first + count;
  while (!is_done_) {
    const int64_t begin = in_slice_ + done_;
    if (begin >= end) return;
    const int64_t run = std::min(row - done_, end - begin);
    take(data + (begin - first) * size, run);
    done_ += run;
    if (done_ == row) next_row();
  }
}

void ScatterCursor::take(const char* data, int64_t count) {
  digest_ += digest_run(data, dtype_, count, in_tensor_ + done_);
  filled_ += count;
  if (target_->data == nullptr) return;
  char* out = static_cast<char*>(target_->data) + (in_target_ + done_) * dtype_size(target_->dtype);
  if (target_->dtype == dtype_) {
    std::memcpy(out, data, static_cast<size_t>(count * dtype_size(dtype_)));
  } else {
    widen_stored(data, dtype_, count, reinterpret_cast<float*>(out));
  }
}

}  // namespace plait
