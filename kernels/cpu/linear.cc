#include "kernels/cpu/linear.h"

namespace plait {

std::vector<const LinearKernel*> linear_kernels() { return {&fma_linear_kernel()}; }

}  // namespace plait
