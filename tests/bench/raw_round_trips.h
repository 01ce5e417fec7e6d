// What the kernel takes for a small message there and back: two ends of one TCP connection over
// loopback, blocking calls, nothing else.
#pragma once

#include <vector>

#include "tests/bench/two_processes.h"

namespace plait::bench {

/// Seconds of each round trip, as rank 0 sees them; both processes call it.
std::vector<double> time_raw_tcp(TwoProcesses& processes);

}  // namespace plait::bench
