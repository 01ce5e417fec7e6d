#include <cstdint>
#include <cstring>

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

#if HWY_TARGET <= HWY_AVX3
/// a/b for one b and many a, as exactly rounded as a division and without its cost: with
/// y = round(1/b), one correction of round(a·y) by the exact remainder gives round(a/b)
/// (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990),
/// unless b's mantissa is all ones or a is so small or large that the steps leave the range.
class Divisor {
 public:
  explicit Divisor(float b) : b_(b), y_(1.0f / b) {
    uint32_t bits;
    std::memcpy(&bits, &b, sizeof(bits));
    is_plain_ = (bits & 0x7FFFFFu) == 0x7FFFFFu || !(b > 0x1p-60f && b < 0x1p60f);
  }

  template <class V>
  HWY_INLINE V divide(V a) const {
    const FloatTag d;
    const hn::RebindToUnsigned<FloatTag> du;
    // |a| in [2⁻⁶⁰, 2⁶⁰) or 0, by its exponent alone.
    const auto magnitude = hn::ShiftLeft<1>(hn::BitCast(du, a));
    const auto distance = hn::Sub(magnitude, hn::Set(du, 67u << 24));
    const auto is_usual =
        hn::Or(hn::Lt(distance, hn::Set(du, 120u << 24)), hn::Eq(magnitude, hn::Zero(du)));
    const V b = hn::Set(d, b_), y = hn::Set(d, y_);
    if (is_plain_ || !hn::AllTrue(du, is_usual)) return hn::Div(a, b);
    const V q = hn::Mul(a, y);
    return hn::MulAdd(hn::NegMulAdd(b, q, a), y, q);
  }

 private:
  float b_, y_;
  bool is_plain_;
};
#else
class Divisor {
 public:
  explicit Divisor(float b) : b_(b) {}
  template <class V>
  HWY_INLINE V divide(V a) const {
    return hn::Div(a, hn::Set(FloatTag(), b_));
  }

 private:
  float b_;
};
#endif

// The order and the separate roundings of kernels/math/adamw.h.
template <class T>
void update(const AdamW& a, int64_t first, int64_t last) {
  const FloatTag d;
  const auto scale = hn::Set(d, a.gradient_scale), rate = hn::Set(d, a.lr);
  const auto beta1 = hn::Set(d, a.beta1), rest1 = hn::Set(d, 1.0f - a.beta1);
  const auto beta2 = hn::Set(d, a.beta2), rest2 = hn::Set(d, 1.0f - a.beta2);
  const Divisor correction1(a.correction1), correction2(a.correction2);
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
    const auto root = hn::Sqrt(correction2.divide(s));
    const auto step = hn::Div(correction1.divide(m), hn::Add(root, epsilon));
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
