#include "kernels/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

/// Column of a target in this shard, or −1: not owned, or not counted.
int64_t target_column(int32_t target, int64_t first_id, int64_t vocabulary) {
  const int64_t column = int64_t{target} - first_id;
  return target >= 0 && column >= 0 && column < vocabulary ? column : -1;
}

template <class T>
void gradient_loop(const CrossEntropyGradient& a) {
  const int64_t columns = a.logits.columns();
  for (int64_t row = 0; row < a.logits.rows(); ++row) {
    const float* z = a.logits.as<float>() + row * columns;
    const int64_t target = target_column(a.targets[row], a.first_id, a.vocabulary);
    const double maximum = load(a.maximum.as<float>(), row), sum = load(a.sum.as<float>(), row);
    for (int64_t j = 0; j < columns; ++j) {
      double grad = 0.0;
      if (j < a.vocabulary && a.targets[row] >= 0) {
        const double p = std::exp(load(z, j) - maximum) / sum;
        grad = (p - (j == target ? 1.0 : 0.0)) * static_cast<double>(a.scale);
      }
      store(a.grad.as<T>(), row * columns + j, grad);
    }
  }
}

class ReferenceCrossEntropy : public CrossEntropyKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(DType grad_dtype, IsaLevel) const override { return is_floating(grad_dtype); }

  void statistics(OpContext&, const CrossEntropyStatistics& a) const override {
    for (int64_t row = 0; row < a.logits.rows(); ++row) {
      const float* z = a.logits.as<float>() + row * a.logits.columns();
      float maximum = -INFINITY;
      for (int64_t j = 0; j < a.vocabulary; ++j) maximum = std::max(maximum, z[j]);
      double sum = 0.0;
      for (int64_t j = 0; j < a.vocabulary; ++j) sum += std::exp(load(z, j) - maximum);
      const int64_t target = target_column(a.targets[row], a.first_id, a.vocabulary);
      a.maximum.as<float>()[row] = maximum;
      a.sum.as<float>()[row] = static_cast<float>(sum);
      a.target_logit.as<float>()[row] = target < 0 ? 0.0f : z[target];
    }
  }

  void gradient(OpContext&, const CrossEntropyGradient& a) const override {
    visit_dtype(a.grad.dtype, [&](auto t) { gradient_loop<typename decltype(t)::type>(a); });
  }
};

}  // namespace

const CrossEntropyKernel& reference_cross_entropy() {
  static const ReferenceCrossEntropy kernel;
  return kernel;
}

}  // namespace plait
