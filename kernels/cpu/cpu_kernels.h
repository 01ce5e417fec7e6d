// The CPU backend's implementations, one list for each op.
#pragma once

#include "kernels/ops/kernels.h"

namespace plait {

/// Best first, reference last. Which of them serves a call depends on the device's level.
Kernels cpu_kernels();

}  // namespace plait
