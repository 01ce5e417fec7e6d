// Normal draws of a named stream, the same bits on every device and at every instruction-set level.
#pragma once

#include "kernels/base/random.h"
#include "kernels/ops/context.h"

namespace plait {

/// Element (r, c) of a box is std · normal number first + r · stride + c of the stream `key`; see
/// fill_normal of kernels/base/random.h.
struct NormalStream {
  PhiloxKey key;
  double std = 1.0;
  int64_t first = 0;
  int64_t stride = 0;
};

class NormalKernel {
 public:
  virtual ~NormalKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(IsaLevel isa) const = 0;
  virtual void draw(OpContext& context, const NormalStream& stream, TensorView out) const = 0;
};

/// Fills out [rows, columns] float32.
void draw_normal(OpContext& context, const NormalStream& stream, TensorView out);

}  // namespace plait
