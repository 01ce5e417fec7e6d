#include "engine/trainer/world_gather.h"

namespace plait {

int64_t world_size(const StepGroups& groups) {
  return groups.tensor->size() * groups.data->size() * groups.pipeline->size();
}

// rank = τ + t·(δ + d·π), so what the axes add in this order lies by rank.
void gather_by_rank(const StepGroups& groups, const void* from, int64_t bytes, void* scratch,
                    void* to) {
  const int64_t of_tensor = bytes * groups.tensor->size();
  groups.tensor->all_gather_bytes(from, bytes, to);
  groups.data->all_gather_bytes(to, of_tensor, scratch);
  groups.pipeline->all_gather_bytes(scratch, of_tensor * groups.data->size(), to);
}

}  // namespace plait
