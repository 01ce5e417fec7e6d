#include "kernels/math/activation.h"

#include "kernels/ops/activation.h"
#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

template <class T>
void forward_loop(const ActivationForward& a) {
  const int64_t width = a.y.columns();
  const T* u = a.u.as<T>();
  for (int64_t i = 0; i < a.y.elements(); ++i) {
    if (a.kind == ActivationKind::kGelu) {
      store(a.y.as<T>(), i, gelu(load(u, i)));
      continue;
    }
    const int64_t gate = i / width * 2 * width + i % width;
    store(a.y.as<T>(), i, silu(load(u, gate)) * load(u, gate + width));
  }
}

template <class T>
void backward_loop(const ActivationBackward& a) {
  const int64_t width = a.grad_y.columns();
  const T* u = a.u.as<T>();
  T* grad_u = a.grad_u.as<T>();
  for (int64_t i = 0; i < a.grad_y.elements(); ++i) {
    const double grad = load(a.grad_y.as<T>(), i);
    if (a.kind == ActivationKind::kGelu) {
      store(grad_u, i, grad * gelu_derivative(load(u, i)));
      continue;
    }
    const int64_t gate = i / width * 2 * width + i % width;
    store(grad_u, gate, grad * load(u, gate + width) * silu_derivative(load(u, gate)));
    store(grad_u, gate + width, grad * silu(load(u, gate)));
  }
}

class ReferenceActivation : public ActivationKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(DType dtype, IsaLevel) const override { return is_floating(dtype); }
  void forward(OpContext&, const ActivationForward& a) const override {
    visit_dtype(a.u.dtype, [&](auto t) { forward_loop<typename decltype(t)::type>(a); });
  }
  void backward(OpContext&, const ActivationBackward& a) const override {
    visit_dtype(a.u.dtype, [&](auto t) { backward_loop<typename decltype(t)::type>(a); });
  }
};

}  // namespace

const ActivationKernel& reference_activation() {
  static const ReferenceActivation kernel;
  return kernel;
}

}  // namespace plait
