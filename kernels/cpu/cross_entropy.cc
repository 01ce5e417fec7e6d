#include <cmath>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/vector_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cross_entropy.cc"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

/// Largest of the elements that are not NaN; −∞ of none.
float row_maximum(const float* z, int64_t count) {
  const FloatTag d;
  const auto lowest = hn::Set(d, -INFINITY);
  auto first = lowest, second = lowest;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  // Max gives its second operand when one is NaN.
  for (; i + 2 * step <= count; i += 2 * step) {
    first = hn::Max(load(d, z + i), first);
    second = hn::Max(load(d, z + i + step), second);
  }
  for_vectors(d, count - i, [&](int64_t j, auto lanes) PLAIT_VECTOR_LAMBDA {
    first = hn::Max(replace_others(d, load(d, z + i + j, lanes), lowest, lanes), first);
  });
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(first, second)));
}

/// Σ exp(z − maximum), and fetches the row behind into the caches: fp32 in each lane over 128
/// vectors, fp64 beyond.
double row_sum(const float* z, int64_t count, float maximum, int64_t stride) {
  const FloatTag d;
  const auto block = 128 * static_cast<int64_t>(hn::Lanes(d));
  const auto top = hn::Set(d, maximum);
  double total = 0.0;
  for (int64_t first = 0; first < count; first += block) {
    auto sum = hn::Zero(d);
    const int64_t length = count - first < block ? count - first : block;
    for_vectors(d, length, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
      hwy::Prefetch(z + stride + first + i);
      const auto e = exp_nonpositive(d, hn::Sub(load(d, z + first + i, lanes), top));
      sum = hn::Add(sum, zero_others(d, e, lanes));
    });
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

void measure_rows(const CrossEntropyStatistics& a, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const float* z = a.logits.as<float>() + row * a.logits.columns();
    const float maximum = row_maximum(z, a.vocabulary);
    const int64_t stride = row + 1 < a.logits.rows() ? a.logits.columns() : 0;
    a.maximum.as<float>()[row] = maximum;
    a.sum.as<float>()[row] = static_cast<float>(row_sum(z, a.vocabulary, maximum, stride));
    const int64_t column = int64_t{a.targets[row]} - a.first_id;
    const bool is_owned = a.targets[row] >= 0 && column >= 0 && column < a.vocabulary;
    a.target_logit.as<float>()[row] = is_owned ? z[column] : 0.0f;
  }
}

template <class T>
void gradient_row(const CrossEntropyGradient& a, int64_t row) {
  const FloatTag d;
  const int64_t columns = a.logits.columns();
  const float* z = a.logits.as<float>() + row * columns;
  T* grad = a.grad.as<T>() + row * columns;
  if (a.targets[row] < 0) {
    std::memset(static_cast<void*>(grad), 0, static_cast<size_t>(columns) * sizeof(T));
    return;
  }
  const auto top = hn::Set(d, a.maximum.as<float>()[row]);
  const auto sum = hn::Set(d, a.sum.as<float>()[row]);
  const auto scale = hn::Set(d, a.scale), one = hn::Set(d, 1.0f);
  const auto share = hn::Div(one, sum);
  const int64_t column = int64_t{a.targets[row]} - a.first_id;
  const bool is_owned = column >= 0 && column < a.vocabulary;
  auto at_target = hn::Zero(d);
  if (is_owned) {  // before the loop, which may overwrite the logits
    const auto p = hn::Div(exp_nonpositive(d, hn::Sub(hn::Set(d, z[column]), top)), sum);
    at_target = hn::Mul(hn::Sub(p, one), scale);
  }
  const auto factor = hn::Mul(share, scale);
  for_vectors(d, a.vocabulary, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const auto e = exp_nonpositive(d, hn::Sub(load(d, z + i, lanes), top));
    store(d, hn::Mul(e, factor), grad + i, lanes);
  });
  if (is_owned) store(d, at_target, grad + column, SomeLanes{1});
  std::memset(static_cast<void*>(grad + a.vocabulary), 0,
              static_cast<size_t>(columns - a.vocabulary) * sizeof(T));
}

void gradient_rows(const CrossEntropyGradient& a, int64_t first, int64_t last) {
  visit_storage(a.grad.dtype, [&](auto t) {
    for (int64_t row = first; row < last; ++row) gradient_row<typename decltype(t)::type>(a, row);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait {
namespace {

PLAIT_CPU_EXPORT(measure_rows);
PLAIT_CPU_EXPORT(gradient_rows);

class VectorCrossEntropy : public CrossEntropyKernel {
 public:
  const char* name() const override { return "vector"; }
  bool supports(DType grad_dtype, IsaLevel isa) const override {
    return has_vector_code(isa) && is_vector_storage(grad_dtype);
  }

  void statistics(OpContext& context, const CrossEntropyStatistics& a) const override {
    const auto measure = PLAIT_CPU_CALL(measure_rows, context.device.isa());
    context.pool().run_range(a.logits.rows(), rows_per_task(a.logits.columns()),
                             [&](int64_t first, int64_t last, int) { measure(a, first, last); });
  }

  void gradient(OpContext& context, const CrossEntropyGradient& a) const override {
    const auto gradient = PLAIT_CPU_CALL(gradient_rows, context.device.isa());
    context.pool().run_range(a.logits.rows(), rows_per_task(a.logits.columns()),
                             [&](int64_t first, int64_t last, int) { gradient(a, first, last); });
  }
};

}  // namespace

const CrossEntropyKernel& vector_cross_entropy() {
  static const VectorCrossEntropy kernel;
  return kernel;
}

}  // namespace plait
#endif  // HWY_ONCE
