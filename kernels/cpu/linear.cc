#include "kernels/cpu/linear.h"

namespace plait {

std::vector<const LinearKernel*> linear_kernels() {
  return {&onednn_tiles_linear_kernel(), &fma_linear_kernel(), &onednn_linear_kernel()};
}

}  // namespace plait
