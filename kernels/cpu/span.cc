#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/vector_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/span.cc"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

template <class From, class To>
void convert_elements(const From* from, To* to, int64_t count) {
  const FloatTag d;
  for_vectors(d, count, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    store(d, load(d, from + i, lanes), to + i, lanes);
  });
}

void convert_part(const TensorView& from, const TensorView& to, int64_t first, int64_t last) {
  visit_storage(from.dtype, [&](auto f) {
    using From = typename decltype(f)::type;
    visit_storage(to.dtype, [&](auto t) {
      using To = typename decltype(t)::type;
      convert_elements(from.as<const From>() + first, to.as<To>() + first, last - first);
    });
  });
}

template <class T>
void add_elements(const T* x, T* sum, int64_t count) {
  const FloatTag d;
  for_vectors(d, count, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    store(d, hn::Add(load(d, sum + i, lanes), load(d, x + i, lanes)), sum + i, lanes);
  });
}

void add_part(const TensorView& from, const TensorView& to, int64_t first, int64_t last) {
  visit_storage(to.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    add_elements(from.as<const T>() + first, to.as<T>() + first, last - first);
  });
}

/// Eight sums in fp64, whatever the vector's length: element i goes to sum i mod 8. Squares of
/// floats are exact in fp64, so all targets agree in every bit.
/// Of kBlocks whole blocks (count is one block's), or of one of any count.
template <size_t kBlocks>
void block_sums(const float* x, int64_t count, double* out) {
  const hn::ScalableTag<double> d;
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<double>()), kVectors = 8 / kLanes;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  hn::Vec<hn::ScalableTag<double>> sums[kBlocks * kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < kBlocks * kVectors; ++v) {
      const size_t at = v / kVectors * kSumSquaresBlock + v % kVectors * kLanes;
      const auto wide = hn::PromoteTo(d, hn::LoadU(half, x + i + at));
      sums[v] = hn::Add(sums[v], hn::Mul(wide, wide));
    }
  }
  alignas(64) double lanes[8];
  for (size_t block = 0; block < kBlocks; ++block) {
    for (size_t v = 0; v < kVectors; ++v) {
      hn::Store(sums[block * kVectors + v], d, lanes + v * kLanes);
    }
    if constexpr (kBlocks == 1) {
      for (int64_t j = 0; j < count % 8; ++j) {
        const double wide = x[i + j];
        lanes[j] += wide * wide;
      }
    }
    out[block] = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                 ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
}

/// Sums of the blocks of count elements; four at a time, since the sums of one wait for each other.
void sum_blocks(const float* x, int64_t count, double* out) {
  for (; count >= 4 * kSumSquaresBlock; count -= 4 * kSumSquaresBlock) {
    block_sums<4>(x, kSumSquaresBlock, out);
    x += 4 * kSumSquaresBlock;
    out += 4;
  }
  for (; count > 0; count -= kSumSquaresBlock) {
    block_sums<1>(x, count < kSumSquaresBlock ? count : kSumSquaresBlock, out);
    x += kSumSquaresBlock;
    ++out;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait {
namespace {

constexpr int64_t kElementsPerTask = 16 * kSumSquaresBlock;

PLAIT_CPU_EXPORT(convert_part);
PLAIT_CPU_EXPORT(add_part);
PLAIT_CPU_EXPORT(sum_blocks);

class VectorSpan : public SpanKernel {
 public:
  const char* name() const override { return "vector"; }
  bool supports(DType dtype, IsaLevel isa) const override {
    return has_vector_code(isa) && is_vector_storage(dtype);
  }

  void convert(OpContext& context, TensorView from, TensorView to) const override {
    const auto part = PLAIT_CPU_CALL(convert_part, context.device.isa());
    context.pool().run_range(
        from.elements(), kElementsPerTask,
        [&](int64_t first, int64_t last, int) { part(from, to, first, last); });
  }

  void add(OpContext& context, TensorView from, TensorView to) const override {
    const auto part = PLAIT_CPU_CALL(add_part, context.device.isa());
    context.pool().run_range(
        from.elements(), kElementsPerTask,
        [&](int64_t first, int64_t last, int) { part(from, to, first, last); });
  }

  double sum_squares(OpContext& context, TensorView span, double* block_sums) const override {
    const auto sum = PLAIT_CPU_CALL(sum_blocks, context.device.isa());
    const int64_t count = span.elements();
    const int64_t blocks = (count + kSumSquaresBlock - 1) / kSumSquaresBlock;
    context.pool().run_range(count, kElementsPerTask, [&](int64_t first, int64_t last, int) {
      sum(span.as<float>() + first, last - first, block_sums + first / kSumSquaresBlock);
    });
    double total = 0.0;
    for (int64_t block = 0; block < blocks; ++block) total += block_sums[block];
    return total;
  }
};

}  // namespace

const SpanKernel& vector_span() {
  static const VectorSpan kernel;
  return kernel;
}

}  // namespace plait
#endif  // HWY_ONCE
