#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/vector_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cc"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

// The order and the separate roundings of kernels/math/adamw.h.
template <class T>
void update(const AdamW& a, int64_t first, int64_t last) {
  const FloatTag d;
  const auto scale = hn::Set(d, a.gradient_scale), rate = hn::Set(d, a.lr);
  const auto beta1 = hn::Set(d, a.beta1), rest1 = hn::Set(d, 1.0f - a.beta1);
  const auto beta2 = hn::Set(d, a.beta2), rest2 = hn::Set(d, 1.0f - a.beta2);
  const auto correction1 = hn::Set(d, a.correction1), correction2 = hn::Set(d, a.correction2);
  const auto epsilon = hn::Set(d, a.epsilon), decay = hn::Set(d, a.decay);
  float* master = a.master.as<float>() + first;
  float* moment1 = a.moment1.as<float>() + first;
  float* moment2 = a.moment2.as<float>() + first;
  const float* gradient = a.gradient.as<float>() + first;
  T* weight = a.weight.as<T>() + first;
  for_vectors(d, last - first, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const auto g = hn::Mul(scale, load(d, gradient + i, lanes));
    const auto m = hn::Add(hn::Mul(beta1, load(d, moment1 + i, lanes)), hn::Mul(rest1, g));
    const auto s =
        hn::Add(hn::Mul(beta2, load(d, moment2 + i, lanes)), hn::Mul(rest2, hn::Mul(g, g)));
    const auto theta = load(d, master + i, lanes);
    const auto root = hn::Sqrt(hn::Div(s, correction2));
    const auto step = hn::Div(hn::Div(m, correction1), hn::Add(root, epsilon));
    const auto next = hn::Sub(theta, hn::Mul(rate, hn::Add(step, hn::Mul(decay, theta))));
    store(d, m, moment1 + i, lanes);
    store(d, s, moment2 + i, lanes);
    store(d, next, master + i, lanes);
    store(d, next, weight + i, lanes);
  });
}

void update_span(const AdamW& a, int64_t first, int64_t last) {
  visit_storage(a.weight.dtype,
                [&](auto t) { update<typename decltype(t)::type>(a, first, last); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait {
namespace {

PLAIT_CPU_EXPORT(update_span);

class VectorAdamW : public AdamWKernel {
 public:
  const char* name() const override { return "vector"; }
  bool supports(DType weight, IsaLevel isa) const override {
    return has_vector_code(isa) && is_vector_storage(weight);
  }
  void run(OpContext& context, const AdamW& a) const override {
    const auto update = PLAIT_CPU_CALL(update_span, context.device.isa());
    context.pool().run_range(a.master.elements(), 16384,
                             [&](int64_t first, int64_t last, int) { update(a, first, last); });
  }
};

}  // namespace

const AdamWKernel& vector_adamw() {
  static const VectorAdamW kernel;
  return kernel;
}

}  // namespace plait
#endif  // HWY_ONCE
