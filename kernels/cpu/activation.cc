#include "kernels/math/activation.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/vector_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

// ½(1 + tanh z) = 1/(1 + e^−2z), and 2z = u·(kSlope + kCubic·u²).
inline constexpr float kSlope = static_cast<float>(2.0 * kGeluRoot);
inline constexpr float kCubic = static_cast<float>(2.0 * kGeluRoot * kGeluCubic);

template <class D, class V>
HWY_INLINE V gelu_vector(D d, V u) {
  const V factor = hn::MulAdd(hn::Mul(u, u), hn::Set(d, kCubic), hn::Set(d, kSlope));
  return hn::Mul(u, sigmoid(d, hn::Mul(u, factor)));
}

/// Beyond ±9.9 the derivative has reached its limits in fp32.
template <class D, class V>
HWY_INLINE V gelu_derivative_vector(D d, V u) {
  const V one = hn::Set(d, 1.0f), slope = hn::Set(d, kSlope);
  const V x = clamp(d, u, -9.9f, 9.9f);
  const V square = hn::Mul(x, x);
  const V factor = hn::MulAdd(square, hn::Set(d, kCubic), slope);
  const V e = exp_in_range(d, hn::Neg(hn::Mul(x, factor)));
  const V s = reciprocal(d, hn::Add(e, one));
  const V rate = hn::MulAdd(square, hn::Set(d, 3.0f * kCubic), slope);
  return hn::MulAdd(hn::Mul(x, rate), hn::Mul(s, hn::Mul(e, s)), s);
}

template <class T>
void gelu_forward(const ActivationForward& a, int64_t first, int64_t last) {
  const FloatTag d;
  const T* u = a.u.as<T>() + first;
  T* y = a.y.as<T>() + first;
  for_vectors(d, last - first, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    store(d, gelu_vector(d, load(d, u + i, lanes)), y + i, lanes);
  });
}

template <class T>
void gelu_backward(const ActivationBackward& a, int64_t first, int64_t last) {
  const FloatTag d;
  const T* u = a.u.as<T>() + first;
  const T* grad_y = a.grad_y.as<T>() + first;
  T* grad_u = a.grad_u.as<T>() + first;
  for_vectors(d, last - first, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const auto derivative = gelu_derivative_vector(d, load(d, u + i, lanes));
    store(d, hn::Mul(load(d, grad_y + i, lanes), derivative), grad_u + i, lanes);
  });
}

template <class T>
void swiglu_forward(const ActivationForward& a, int64_t row) {
  const FloatTag d;
  const int64_t width = a.y.columns();
  const T* gate = a.u.as<T>() + row * 2 * width;
  T* y = a.y.as<T>() + row * width;
  for_vectors(d, width, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const auto g = load(d, gate + i, lanes);
    const auto silu = hn::Mul(g, sigmoid(d, g));
    store(d, hn::Mul(silu, load(d, gate + width + i, lanes)), y + i, lanes);
  });
}

template <class T>
void swiglu_backward(const ActivationBackward& a, int64_t row) {
  const FloatTag d;
  const auto one = hn::Set(d, 1.0f);
  const int64_t width = a.grad_y.columns();
  const T* gate = a.u.as<T>() + row * 2 * width;
  const T* grad_y = a.grad_y.as<T>() + row * width;
  T* grad_gate = a.grad_u.as<T>() + row * 2 * width;
  for_vectors(d, width, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const auto g = load(d, gate + i, lanes);
    const auto up = load(d, gate + width + i, lanes);
    const auto grad = load(d, grad_y + i, lanes);
    const auto x = clamp(d, g, -87.0f, 87.0f);
    const auto e = exp_in_range(d, hn::Neg(x));
    const auto s = reciprocal(d, hn::Add(e, one));
    const auto derivative = hn::Mul(s, hn::MulAdd(x, hn::Mul(e, s), one));
    const auto cut = hn::IfThenZeroElse(hn::Lt(g, hn::Set(d, -87.0f)), s);
    store(d, hn::Mul(hn::Mul(grad, up), derivative), grad_gate + i, lanes);
    store(d, hn::Mul(grad, hn::Mul(g, cut)), grad_gate + width + i, lanes);
  });
}

/// GELU: elements [first, last); SwiGLU: rows [first, last).
void activate(const ActivationForward& a, int64_t first, int64_t last) {
  visit_storage(a.u.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    if (a.kind == ActivationKind::kGelu) return gelu_forward<T>(a, first, last);
    for (int64_t row = first; row < last; ++row) swiglu_forward<T>(a, row);
  });
}

void differentiate(const ActivationBackward& a, int64_t first, int64_t last) {
  visit_storage(a.u.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    if (a.kind == ActivationKind::kGelu) return gelu_backward<T>(a, first, last);
    for (int64_t row = first; row < last; ++row) swiglu_backward<T>(a, row);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait {
namespace {

PLAIT_CPU_EXPORT(activate);
PLAIT_CPU_EXPORT(differentiate);

class VectorActivation : public ActivationKernel {
 public:
  const char* name() const override { return "vector"; }
  bool supports(DType dtype, IsaLevel isa) const override {
    return has_vector_code(isa) && is_vector_storage(dtype);
  }

  void forward(OpContext& context, const ActivationForward& a) const override {
    const auto function = PLAIT_CPU_CALL(activate, context.device.isa());
    run(context, a.kind, a.y, [&](int64_t first, int64_t last, int) { function(a, first, last); });
  }

  void backward(OpContext& context, const ActivationBackward& a) const override {
    const auto function = PLAIT_CPU_CALL(differentiate, context.device.isa());
    run(context, a.kind, a.grad_y,
        [&](int64_t first, int64_t last, int) { function(a, first, last); });
  }

 private:
  static void run(OpContext& context, ActivationKind kind, const TensorView& y,
                  FunctionRef<void(int64_t, int64_t, int)> body) {
    if (kind == ActivationKind::kGelu) {
      context.pool().run_range(y.elements(), 32768, body);
    } else {
      context.pool().run_range(y.rows(), rows_per_task(y.columns()), body);
    }
  }
};

}  // namespace

const ActivationKernel& vector_activation() {
  static const VectorActivation kernel;
  return kernel;
}

}  // namespace plait
#endif  // HWY_ONCE
