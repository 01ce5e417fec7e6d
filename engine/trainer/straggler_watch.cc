#include "engine/trainer/straggler_watch.h"

#include <algorithm>

namespace plait {

StragglerWatch::StragglerWatch(const Mesh& mesh)
    : mesh_(mesh),
      is_alone_(mesh.size(Axis::kTensor) * mesh.size(Axis::kData) == 1),
      warned_(static_cast<size_t>(mesh.world()), 0),
      references_(static_cast<size_t>(mesh.size(Axis::kPipeline))) {
  stragglers_.reserve(warned_.size());
  sorted_.reserve(warned_.size());
}

/// The lower median of the peers of ranks at a pipeline coordinate; 0: there are none.
double StragglerWatch::reference(std::span<const RankPace> paces, int64_t pipeline) {
  sorted_.clear();
  for (size_t i = 0; i < paces.size(); ++i) {
    const RankPace& pace = paces[i];
    if (is_alone_ && pace.work > 0) sorted_.push_back(pace.seconds / pace.work);
    const bool is_peer = mesh_.coordinates(static_cast<int64_t>(i)).pipeline == pipeline;
    if (!is_alone_ && is_peer) sorted_.push_back(pace.seconds);
  }
  if (sorted_.empty()) return 0;
  const auto middle = sorted_.begin() + static_cast<int64_t>((sorted_.size() - 1) / 2);
  std::nth_element(sorted_.begin(), middle, sorted_.end());
  return *middle;
}

std::vector<Straggler> StragglerWatch::judge(std::span<const RankPace> paces) {
  ++window_;
  stragglers_.clear();
  for (size_t i = 0; i < references_.size(); ++i) {
    references_[i] = reference(paces, static_cast<int64_t>(i));
  }
  std::vector<Straggler> news;
  for (size_t i = 0; i < paces.size(); ++i) {
    const auto rank = static_cast<int64_t>(i);
    const Coordinates at = mesh_.coordinates(rank);
    const double usual =
        references_[static_cast<size_t>(at.pipeline)] * (is_alone_ ? paces[i].work : 1);
    const double seconds = paces[i].seconds;
    if (usual <= 0 || seconds < kSlowRatio * usual || seconds < usual + kLeastSeconds) continue;
    stragglers_.push_back({rank, at, seconds / usual, seconds});
    if (warned_[i] != 0 && window_ < warned_[i] + kQuietWindows) continue;
    warned_[i] = window_;
    news.push_back(stragglers_.back());
  }
  return news;
}

const Straggler* StragglerWatch::worst() const {
  const auto found =
      std::max_element(stragglers_.begin(), stragglers_.end(),
                       [](const Straggler& a, const Straggler& b) { return a.ratio < b.ratio; });
  return found == stragglers_.end() ? nullptr : &*found;
}

}  // namespace plait
