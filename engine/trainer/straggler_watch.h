// Which ranks are persistently slower than their peers, from the paces of windows of steps.
//
// Peers are the ranks with the same stages, which have the same to do; where a rank is alone with
// its stages, all ranks, by time for the FLOPs of their stages. A whole stage that is slow is
// therefore not told apart from one that has more to do.
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/comm/mesh.h"
#include "engine/trainer/pace_meter.h"

namespace plait {

struct Straggler {
  int64_t rank = 0;
  Coordinates at;
  double ratio = 0;    ///< its time over that of its peers
  double seconds = 0;  ///< of a step
};

class StragglerWatch {
 public:
  static constexpr double kSlowRatio = 1.5;
  static constexpr double kLeastSeconds = 1e-2;  ///< a busy core's time slice may cost as much
  static constexpr int64_t kQuietWindows = 10;   ///< between two warnings of one rank

  explicit StragglerWatch(const Mesh& mesh);

  /// Takes the paces of a window, by rank. Returns whom to warn of: stragglers of which nothing
  /// was said in the last kQuietWindows windows. Allocates only where there are some.
  std::vector<Straggler> judge(std::span<const RankPace> paces);
  /// Of the last window, by rank.
  const std::vector<Straggler>& stragglers() const { return stragglers_; }
  /// The one with the largest ratio; null: there is none.
  const Straggler* worst() const;

 private:
  double reference(std::span<const RankPace> paces, int64_t pipeline);

  Mesh mesh_;
  bool is_alone_;  // every rank is with its stages
  std::vector<Straggler> stragglers_;
  std::vector<int64_t> warned_;              // by rank: window of the last warning, 0: none yet
  std::vector<double> sorted_, references_;  // of peers; by pipeline coordinate
  int64_t window_ = 0;
};

}  // namespace plait
