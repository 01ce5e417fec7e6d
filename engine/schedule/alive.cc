// How many micro-batches a list keeps alive.
#include <algorithm>
#include <map>

#include "engine/schedule/schedule.h"

namespace plait {
namespace {

/// What an instruction adds to the number of its stage's living micro-batches.
int64_t change_of(Operation operation) {
  if (operation == Operation::kForward) return 1;
  return operation == Operation::kBackward || operation == Operation::kBackwardWeight ? -1 : 0;
}

}  // namespace

int64_t peak_alive(const InstructionList& list) {
  std::map<int64_t, int64_t> alive;
  int64_t peak = 0;
  for (const Instruction& i : list) {
    const int64_t change = change_of(i.operation);
    if (change != 0) peak = std::max(peak, alive[i.stage] += change);
  }
  return peak;
}

int64_t peak_alive(const InstructionList& list, int64_t stage) {
  int64_t alive = 0, peak = 0;
  for (const Instruction& i : list) {
    if (i.stage == stage) peak = std::max(peak, alive += change_of(i.operation));
  }
  return peak;
}

}  // namespace plait
