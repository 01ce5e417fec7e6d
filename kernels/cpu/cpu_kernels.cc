#include "kernels/cpu/cpu_kernels.h"

#include "kernels/reference/reference_kernels.h"

namespace plait {

Kernels cpu_kernels() { return reference_kernels(); }

}  // namespace plait
