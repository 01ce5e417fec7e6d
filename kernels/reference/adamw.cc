#include "kernels/math/adamw.h"

#include "kernels/ops/adamw.h"
#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

class ReferenceAdamW : public AdamWKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(DType weight, IsaLevel) const override { return is_floating(weight); }
  void run(OpContext&, const AdamW& a) const override {
    const AdamWFactors factors{a.gradient_scale, a.lr,      a.beta1, 1.0f - a.beta1, a.beta2,
                               1.0f - a.beta2,   a.epsilon, a.decay, a.correction1,  a.correction2};
    visit_dtype(a.weight.dtype, [&](auto t) {
      using T = typename decltype(t)::type;
      for (int64_t i = 0; i < a.master.elements(); ++i) {
        float* master = a.master.as<float>() + i;
        adamw_element(factors, a.gradient.as<float>()[i], a.moment1.as<float>()[i],
                      a.moment2.as<float>()[i], *master);
        a.weight.as<T>()[i] = from_float<T>(*master);
      }
    });
  }
};

}  // namespace

const AdamWKernel& reference_adamw() {
  static const ReferenceAdamW kernel;
  return kernel;
}

}  // namespace plait
