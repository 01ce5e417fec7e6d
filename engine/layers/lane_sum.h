// Sums over the lanes of a rank, in the order in which ranks of one lane each would add them.
#pragma once

#include "engine/layers/layer.h"
#include "kernels/base/function_ref.h"

namespace plait {

/// sum ← the tree over terms [first, first + count), a power of two: (x0 + x1) + (x2 + x3), each
/// sum in fp32 and rounded once to sum's dtype. `term` computes one into a tensor like sum.
void add_tree(const Pass& pass, size_t first, size_t count, TensorView sum,
              FunctionRef<void(size_t, TensorView)> term);

}  // namespace plait
