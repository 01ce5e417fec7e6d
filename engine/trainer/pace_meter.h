// How long this rank works in a step without waiting for a peer, and what every rank of the world
// needs for that: over windows of steps, the median of each, so that a single hiccup says nothing.
//
// Thread: the rank's own; `world` and `busy_ns` also read while it is out of its calls.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/optimizer/optimizer.h"

namespace plait {

/// A rank over a window.
struct RankPace {
  double seconds = 0;  ///< of a step, the median
  double work = 0;     ///< FLOPs of its stages on a sample, to compare ranks of other stages
};

class PaceMeter {
 public:
  static constexpr int64_t kWindow = 10;  ///< steps

  /// `groups` are borrowed; `work` as in RankPace.
  PaceMeter(const StepGroups& groups, double work);

  /// Work of the step that is open.
  void add(int64_t busy_ns);
  void end_step();

  /// In the step after a window: tells the world and learns of it. False: nothing is due, and
  /// nothing was sent. Collective over all three axes; allocates nothing.
  bool exchange();
  /// By rank, since the last exchange that returned true.
  const std::vector<RankPace>& world() const { return world_; }
  /// So far.
  int64_t busy_ns() const { return busy_ns_; }

 private:
  StepGroups groups_;
  double work_;
  std::vector<RankPace> world_, scratch_;
  std::array<int64_t, kWindow> steps_{};  // of the window that is open
  size_t count_ = 0;
  int64_t open_ns_ = 0, busy_ns_ = 0;
};

}  // namespace plait
