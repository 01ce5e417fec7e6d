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

// ½(1 + tanh z) = 1/(1 + e^−2z) = 1/(1 + 2^y) with y = −u·(kSlope + kCubic·u²)·log₂e.
inline constexpr double kLog2EExact = 1.4426950408889634;
inline constexpr float kSlope = static_cast<float>(2.0 * kGeluRoot);
inline constexpr float kCubic = static_cast<float>(2.0 * kGeluRoot * kGeluCubic);
inline constexpr float kSlopeLog2 = static_cast<float>(-2.0 * kLog2EExact * kGeluRoot);
inline constexpr float kCubicLog2 = static_cast<float>(-2.0 * kLog2EExact * kGeluRoot * kGeluCubic);

template <class D, class V>
HWY_INLINE V gelu_vector(D d, V u) {
  const V factor = hn::MulAdd(hn::Mul(u, u), hn::Set(d, kCubicLog2), hn::Set(d, kSlopeLog2));
  return hn::Mul(u, sigmoid_of_log2(d, hn::Mul(u, factor)));
}

/// s and 1 − s of s = 1/(1 + power).
template <class V>
struct Sides {
  V s, rest;
};

template <class D, class V>
HWY_INLINE Sides<V> sigmoid_sides(D d, const Power<V>& power) {
  const V e = hn::Mul(power.fraction, power.scale);
  const V s = reciprocal(d, hn::Add(e, hn::Set(d, 1.0f)));
  return {s, hn::Mul(e, s)};
}

/// Beyond ±9.9 the derivative has reached its limits in fp32.
template <class D, class V>
HWY_INLINE V gelu_derivative_vector(D d, V u) {
  const V x = clamp(d, u, -9.9f, 9.9f);
  const V square = hn::Mul(x, x);
  const V factor = hn::MulAdd(square, hn::Set(d, kCubicLog2), hn::Set(d, kSlopeLog2));
  const Sides<V> sides = sigmoid_sides(d, exp2_parts(d, hn::Mul(x, factor)));
  const V rate = hn::MulAdd(square, hn::Set(d, 3.0f * kCubic), hn::Set(d, kSlope));
  return hn::MulAdd(hn::Mul(x, rate), hn::Mul(sides.s, sides.rest), sides.s);
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
    const auto sides = sigmoid_sides(d, exp_parts<-1>(d, x));
    const auto derivative = hn::Mul(sides.s, hn::MulAdd(x, sides.rest, one));
    store(d, hn::Mul(hn::Mul(grad, up), derivative), grad_gate + i, lanes);
    store(d, hn::Mul(grad, hn::Mul(g, sides.s)), grad_gate + width + i, lanes);
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
