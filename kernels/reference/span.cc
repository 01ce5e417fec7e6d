#include "kernels/ops/span.h"

#include <algorithm>

#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

/// The fixed order of one block; see the header of the op.
double block_sum(const float* x, int64_t count) {
  double lanes[8] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i % 8] += load(x, i) * load(x, i);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

class ReferenceSpan : public SpanKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(DType dtype, IsaLevel) const override { return is_floating(dtype); }

  void convert(OpContext&, TensorView from, TensorView to) const override {
    visit_dtypes(from.dtype, to.dtype, [&](auto f, auto t) {
      using From = typename decltype(f)::type;
      using To = typename decltype(t)::type;
      for (int64_t i = 0; i < from.elements(); ++i) {
        to.as<To>()[i] = from_float<To>(to_float(from.as<From>()[i]));
      }
    });
  }

  void add(OpContext&, TensorView from, TensorView to) const override {
    visit_dtype(to.dtype, [&](auto t) {
      using T = typename decltype(t)::type;
      for (int64_t i = 0; i < from.elements(); ++i) {
        T* sum = to.as<T>() + i;
        *sum = from_float<T>(to_float(*sum) + to_float(from.as<T>()[i]));
      }
    });
  }

  double sum_squares(OpContext&, TensorView span, double* block_sums) const override {
    const int64_t count = span.elements();
    double total = 0.0;
    for (int64_t block = 0; block * kSumSquaresBlock < count; ++block) {
      const int64_t first = block * kSumSquaresBlock;
      block_sums[block] =
          block_sum(span.as<float>() + first, std::min(kSumSquaresBlock, count - first));
      total += block_sums[block];
    }
    return total;
  }
};

}  // namespace

const SpanKernel& reference_span() {
  static const ReferenceSpan kernel;
  return kernel;
}

}  // namespace plait
