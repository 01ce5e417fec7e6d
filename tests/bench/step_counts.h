// Counts that do not depend on the clock: allocations of the whole program and packed weights.
#pragma once

#include <cstdint>

namespace plait::bench {

/// Calls of malloc and its kin in all threads (operator new among them) since the program began.
int64_t allocations();
/// Weights that were packed since the program began, and the bytes of their packed forms.
int64_t packs();
int64_t packed_bytes();

}  // namespace plait::bench
