#include "kernels/base/box.h"

namespace plait {

Box Box::whole(const Shape& shape) {
  Box box;
  box.dims = shape.dims();
  for (int i = 0; i < box.dims; ++i) box.size[i] = shape[i];
  return box;
}

int64_t Box::elements() const {
  int64_t product = 1;
  for (int i = 0; i < dims; ++i) product *= size[i];
  return product;
}

}  // namespace plait
