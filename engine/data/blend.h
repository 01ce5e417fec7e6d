// Which data set gives the next sample: Tijdeman's rule ("The chairman assignment problem", 1980).
// No prefix of the draws is off by more than 1 − 1/D samples of any set, D = 2J − 2.
//
// Weights are integers W_j with sum 2³². After K draws the credit of set j is
// A_j = W_j·K − 2³²·drawn_j, so the drawn counts are the whole state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plait {

/// Position in the draws of a blend.
struct BlendState {
  int64_t ordinal = 0;         ///< draws so far
  std::vector<int64_t> drawn;  ///< of each set; they sum to `ordinal`
};

/// One draw.
struct Draw {
  int64_t set = 0;
  int64_t ordinal = 0;  ///< the set's own, from 0
};

class Blend {
 public:
  /// Shares of J ≥ 1 sets, each positive and finite, else `argument`. At ordinal 0.
  explicit Blend(const std::vector<double>& weights);

  int64_t sets() const { return static_cast<int64_t>(weights_.size()); }
  int64_t weight(int64_t set) const { return weights_[static_cast<size_t>(set)]; }  ///< W_j
  int64_t credit(int64_t set) const { return credits_[static_cast<size_t>(set)]; }  ///< A_j
  const BlendState& state() const { return state_; }

  /// The next draw; advances the state. Allocates nothing.
  Draw next();

  /// Goes to `ordinal` ≥ 0 by replaying draws: from here if it lies ahead, else from the nearest of
  /// the positions passed before. The order repeats after 2³² draws or fewer, so a replay never
  /// takes more.
  void seek(int64_t ordinal);

  /// Goes to a stored state without a replay. `argument` when no run of these weights has it.
  void seek(const BlendState& state);

 private:
  void remember();
  void load(const BlendState& state);
  void thin_anchors();

  std::vector<int64_t> weights_;
  std::vector<int64_t> credits_;
  BlendState state_;
  int64_t period_ = 1;               // draws after which all credits are 0 again
  std::vector<BlendState> recent_;   // a ring of positions lately passed
  std::vector<BlendState> anchors_;  // positions passed; the first anchor_count_, thinned when full
  int64_t recent_next_ = 0;
  int64_t anchor_count_ = 0;
  int64_t anchor_spacing_;
};

}  // namespace plait
