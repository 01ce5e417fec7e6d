#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/vector_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rotary.cc"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void rotate_row(const Rotary& a, int64_t row) {
  const FloatTag d;
  const int64_t half = a.head_size / 2;
  const int64_t position = a.positions != nullptr ? a.positions[row] : row % a.sequence;
  const float* cosines = a.table.as<float>() + position * a.head_size;
  const auto sign = hn::Set(d, a.is_inverse ? -1.0f : 1.0f);
  T* x = a.qkv.as<T>() + row * a.qkv.columns();
  for (int64_t head = 0; head < a.heads + a.key_value_heads; ++head, x += a.head_size) {
    for_vectors(d, half, [&](int64_t j, auto lanes) PLAIT_VECTOR_LAMBDA {
      const auto cosine = load(d, cosines + j, lanes);
      const auto sine = hn::Mul(sign, load(d, cosines + half + j, lanes));
      const auto low = load(d, x + j, lanes);
      const auto high = load(d, x + half + j, lanes);
      store(d, hn::NegMulAdd(high, sine, hn::Mul(low, cosine)), x + j, lanes);
      store(d, hn::MulAdd(low, sine, hn::Mul(high, cosine)), x + half + j, lanes);
    });
  }
}

void rotate_rows(const Rotary& a, int64_t first, int64_t last) {
  visit_storage(a.qkv.dtype, [&](auto t) {
    for (int64_t row = first; row < last; ++row) rotate_row<typename decltype(t)::type>(a, row);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait {
namespace {

PLAIT_CPU_EXPORT(rotate_rows);

class VectorRotary : public RotaryKernel {
 public:
  const char* name() const override { return "vector"; }
  bool supports(DType dtype, IsaLevel isa) const override {
    return has_vector_code(isa) && is_vector_storage(dtype);
  }
  void run(OpContext& context, const Rotary& a) const override {
    const auto rotate = PLAIT_CPU_CALL(rotate_rows, context.device.isa());
    context.pool().run_range(a.qkv.rows(), rows_per_task(a.qkv.columns()),
                             [&](int64_t first, int64_t last, int) { rotate(a, first, last); });
  }
};

}  // namespace

const RotaryKernel& vector_rotary() {
  static const VectorRotary kernel;
  return kernel;
}

}  // namespace plait
#endif  // HWY_ONCE
