// The three takeaways of 2104.04473 out of estimates and searches.
#pragma once

#include <string>

#include "tests/bench/planner_tables.h"

namespace plait::bench {

void judge_takeaways(const std::string& directory, const Hardware& hardware, Goals* goals);

}  // namespace plait::bench
