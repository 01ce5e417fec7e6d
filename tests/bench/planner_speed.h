// How fast plans are made, on one core.
#pragma once

namespace plait::bench {

/// Prints candidates a second through rules, memory and bound, seconds of a whole plan for 175e9
/// weights on 1,024 devices, and seconds of one simulated step of 64 coordinates, 4 chunks and 512
/// micro-batches, each beside its goal. True when all goals are reached.
bool print_planner_speed();

}  // namespace plait::bench
