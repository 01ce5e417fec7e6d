// What an all-reduce cannot do without, as plain loops: every part is read and every part written.
#pragma once

#include <cstdint>

#include "kernels/device/isa.h"

namespace plait::bench {

/// parts[m][i] ← ((parts[0][i] + parts[1][i]) + …) for i in [first, last), in all of `members`
/// parts, in the widest form that the level allows. Bounds are multiples of 16 elements.
using SumInPlace = void (*)(float* const* parts, int64_t members, int64_t first, int64_t last);
SumInPlace sum_in_place(IsaLevel level);

}  // namespace plait::bench
