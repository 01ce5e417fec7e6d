// Counts that do not depend on the clock: allocations of the whole program; packed weights are
// counted by the watch over ops, which a program that links this has around its engines' kernels.
#pragma once

#include <cstdint>

namespace plait::bench {

/// Calls of malloc and its kin in all threads (operator new among them) since the program began.
int64_t allocations();

}  // namespace plait::bench
