#include "kernels/ops/linear.h"

#include <algorithm>

#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

template <class T, class Y>
void forward_loop(const TensorView& weight, const LinearForward& a) {
  const int64_t m = a.x.rows(), k = a.x.columns(), n = weight.rows();
  for (int64_t row = 0; row < m; ++row) {
    const T* x = a.x.as<T>() + row * k;
    for (int64_t out = 0; out < n; ++out) {
      const T* w = weight.as<T>() + out * k;
      double sum = a.bias.is_present() ? load(a.bias.as<T>(), out) : 0.0;
      for (int64_t i = 0; i < k; ++i) sum += load(x, i) * load(w, i);
      store(a.y.as<Y>(), row * n + out, sum);
    }
  }
}

template <class T, class X>
void backward_input_loop(const TensorView& weight, const LinearBackwardInput& a, double* sums) {
  const int64_t m = a.grad_y.rows(), n = a.grad_y.columns(), k = weight.columns();
  for (int64_t row = 0; row < m; ++row) {
    std::fill(sums, sums + k, 0.0);
    for (int64_t out = 0; out < n; ++out) {
      const double grad = load(a.grad_y.as<T>(), row * n + out);
      const T* w = weight.as<T>() + out * k;
      for (int64_t i = 0; i < k; ++i) sums[i] += grad * load(w, i);
    }
    for (int64_t i = 0; i < k; ++i) store(a.grad_x.as<X>(), row * k + i, sums[i]);
  }
}

/// One row of grad_weight and one element of grad_bias at a time.
template <class T>
void backward_weight_loop(const LinearBackwardWeight& a, double* sums) {
  const int64_t m = a.x.rows(), k = a.x.columns(), n = a.grad_y.columns();
  const bool is_adding = a.mode == GradientMode::kAccumulate;
  for (int64_t out = 0; out < n; ++out) {
    std::fill(sums, sums + k, 0.0);
    double bias = 0.0;
    for (int64_t row = 0; row < m; ++row) {
      const double grad = load(a.grad_y.as<T>(), row * n + out);
      const T* x = a.x.as<T>() + row * k;
      bias += grad;
      for (int64_t i = 0; i < k; ++i) sums[i] += grad * load(x, i);
    }
    float* grad_weight = a.grad_weight.as<float>() + out * k;
    for (int64_t i = 0; i < k; ++i) {
      store(grad_weight, i, is_adding ? grad_weight[i] + sums[i] : sums[i]);
    }
    if (!a.grad_bias.is_present()) continue;
    float* grad_bias = a.grad_bias.as<float>();
    store(grad_bias, out, is_adding ? grad_bias[out] + bias : bias);
  }
}

class ReferenceLinearPlan : public LinearPlan {
 public:
  explicit ReferenceLinearPlan(const LinearShape& shape) : shape_(shape) {}
  const char* name() const override { return "reference"; }
  int64_t packed_bytes() const override { return 0; }
  void pack(OpContext&, TensorView, void*) const override {}
  int64_t workspace_bytes(int64_t, int) const override {
    return shape_.k * static_cast<int64_t>(sizeof(double));
  }
  void forward(OpContext&, TensorView weight, const void*, const LinearForward& a,
               void*) const override {
    visit_dtypes(shape_.dtype, a.y.dtype, [&](auto t, auto y) {
      forward_loop<typename decltype(t)::type, typename decltype(y)::type>(weight, a);
    });
  }
  void backward_input(OpContext&, TensorView weight, const void*, const LinearBackwardInput& a,
                      void* workspace) const override {
    visit_dtypes(shape_.dtype, a.grad_x.dtype, [&](auto t, auto x) {
      backward_input_loop<typename decltype(t)::type, typename decltype(x)::type>(
          weight, a, static_cast<double*>(workspace));
    });
  }
  void backward_weight(OpContext&, const LinearBackwardWeight& a, void* workspace) const override {
    visit_dtype(shape_.dtype, [&](auto t) {
      backward_weight_loop<typename decltype(t)::type>(a, static_cast<double*>(workspace));
    });
  }

 private:
  LinearShape shape_;
};

class ReferenceLinear : public LinearKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(const LinearShape& shape, IsaLevel) const override {
    return is_floating(shape.dtype);
  }
  std::unique_ptr<LinearPlan> plan(const LinearShape& shape, IsaLevel) const override {
    return std::make_unique<ReferenceLinearPlan>(shape);
  }
};

}  // namespace

const LinearKernel& reference_linear() {
  static const ReferenceLinear kernel;
  return kernel;
}

}  // namespace plait
