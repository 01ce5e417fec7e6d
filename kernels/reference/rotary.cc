#include "kernels/math/rotary.h"

#include "kernels/ops/rotary.h"
#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

/// Query and key heads lie side by side, so one loop turns them all.
template <class T>
void rotate_row(const Rotary& a, int64_t row) {
  const int64_t half = a.head_size / 2;
  const int64_t position = a.positions != nullptr ? a.positions[row] : row % a.sequence;
  const float* table = a.table.as<float>() + position * a.head_size;
  for (int64_t head = 0; head < a.heads + a.key_value_heads; ++head) {
    T* x = a.qkv.as<T>() + row * a.qkv.columns() + head * a.head_size;
    for (int64_t j = 0; j < half; ++j) {
      double low = load(x, j), high = load(x, j + half);
      const double sine = load(table, half + j);
      rotate_pair(low, high, load(table, j), a.is_inverse ? -sine : sine);
      store(x, j, low);
      store(x, j + half, high);
    }
  }
}

class ReferenceRotary : public RotaryKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(DType dtype, IsaLevel) const override { return is_floating(dtype); }
  void run(OpContext&, const Rotary& a) const override {
    visit_dtype(a.qkv.dtype, [&](auto t) {
      for (int64_t row = 0; row < a.qkv.rows(); ++row) {
        rotate_row<typename decltype(t)::type>(a, row);
      }
    });
  }
};

}  // namespace

const RotaryKernel& reference_rotary() {
  static const ReferenceRotary kernel;
  return kernel;
}

}  // namespace plait
