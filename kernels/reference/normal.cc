#include "kernels/ops/normal.h"

#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

class ReferenceNormal : public NormalKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(IsaLevel) const override { return true; }
  void draw(OpContext&, const NormalStream& stream, TensorView out) const override {
    const int64_t columns = out.shape[1];
    for (int64_t row = 0; row < out.shape[0]; ++row) {
      fill_normal(stream.key, stream.std, stream.first + row * stream.stride, columns,
                  out.as<float>() + row * columns);
    }
  }
};

}  // namespace

const NormalKernel& reference_normal() {
  static const ReferenceNormal kernel;
  return kernel;
}

}  // namespace plait
