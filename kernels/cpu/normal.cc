#include <algorithm>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/vector_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/normal.cc"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/normal-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

/// Elements [first, first + count) of the stream. Those of a vector that lie outside go to a
/// buffer.
void normal_elements(PhiloxKey key, double std, int64_t first, int64_t count, float* out) {
  constexpr int64_t kBlocks = hn::MaxLanes(RealTag()), kElements = 4 * kBlocks;
  const RealVector scale = hn::Set(RealTag(), std);
  const int64_t end = first + count;
  for (int64_t at = first / 4 * 4; at < end; at += kElements) {
    const auto block = static_cast<uint64_t>(at / 4);
    if (at >= first && at + kElements <= end) {
      normal_lanes(key, scale, block, out + (at - first));
      continue;
    }
    alignas(64) float buffer[kElements];
    normal_lanes(key, scale, block, buffer);
    const int64_t from = at < first ? first : at, to = at + kElements < end ? at + kElements : end;
    for (int64_t i = from; i < to; ++i) out[i - first] = buffer[i - at];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait {
namespace {

constexpr int64_t kElementsPerTask = 16384;

PLAIT_CPU_EXPORT(normal_elements);

class VectorNormal : public NormalKernel {
 public:
  const char* name() const override { return "vector"; }
  bool supports(IsaLevel isa) const override { return has_vector_code(isa); }

  void draw(OpContext& context, const NormalStream& stream, TensorView out) const override {
    const auto part = PLAIT_CPU_CALL(normal_elements, context.device.isa());
    const int64_t columns = out.shape[1];
    const auto run = [&](int64_t begin, int64_t end, int) {
      for (int64_t at = begin; at < end;) {
        const int64_t row = at / columns, column = at % columns;
        const int64_t count = std::min(end - at, columns - column);
        part(stream.key, stream.std, stream.first + row * stream.stride + column, count,
             out.as<float>() + at);
        at += count;
      }
    };
    context.pool().run_range(out.elements(), kElementsPerTask, run);
  }
};

}  // namespace

const NormalKernel& vector_normal() {
  static const VectorNormal kernel;
  return kernel;
}

}  // namespace plait
#endif  // HWY_ONCE
