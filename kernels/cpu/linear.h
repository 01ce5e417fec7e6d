// Matrix products on the CPU.
#pragma once

#include <vector>

namespace plait {

class LinearKernel;

/// Best first, without reference. The objects live as long as the process.
std::vector<const LinearKernel*> linear_kernels();

/// Blocked products in vector code, any level and dtype: products and sums in float32.
const LinearKernel& fma_linear_kernel();

/// oneDNN for engines at the level that the machine offers: float32 and bfloat16.
const LinearKernel& onednn_linear_kernel();

/// The same for bfloat16 on machines with AMX alone, where it is ahead of the vector code.
const LinearKernel& onednn_tiles_linear_kernel();

}  // namespace plait
