#include "engine/trainer/pace_meter.h"

#include <algorithm>

#include "engine/trainer/world_gather.h"

namespace plait {

PaceMeter::PaceMeter(const StepGroups& groups, double work)
    : groups_(groups),
      work_(work),
      world_(static_cast<size_t>(world_size(groups))),
      scratch_(world_.size()) {}

void PaceMeter::add(int64_t busy_ns) {
  open_ns_ += busy_ns;
  busy_ns_ += busy_ns;
}

void PaceMeter::end_step() {
  if (count_ < steps_.size()) steps_[count_++] = open_ns_;
  open_ns_ = 0;
}

bool PaceMeter::exchange() {
  if (count_ < steps_.size() || world_.size() == 1) return false;
  count_ = 0;
  const auto middle = steps_.begin() + kWindow / 2;
  std::nth_element(steps_.begin(), middle, steps_.end());
  const RankPace own{static_cast<double>(*middle) * 1e-9, work_};
  gather_by_rank(groups_, &own, sizeof own, scratch_.data(), world_.data());
  return true;
}

}  // namespace plait
