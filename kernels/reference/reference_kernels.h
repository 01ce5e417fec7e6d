// Plain loops for every op: the oracle of every other implementation.
#pragma once

#include "kernels/ops/kernels.h"

namespace plait {

/// Lists with the reference implementation alone.
Kernels reference_kernels();

}  // namespace plait
