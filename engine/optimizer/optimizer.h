// AdamW over flat units with fp32 masters and moments. Knows spans and logical tensors, not layers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/ops/context.h"

namespace plait {

/// A contiguous span of a unit that holds (part of) one logical tensor.
struct OptimizerSpan {
  int64_t tensor = 0;  ///< index of the logical tensor in canonical order
  int64_t first = 0;   ///< element in the unit
  int64_t count = 0;
};

/// Borrowed flat buffers of one unit, and what lies in them.
struct OptimizerUnit {
  TensorView weights;    ///< [elements] compute dtype
  TensorView gradients;  ///< [elements] float32
  std::vector<OptimizerSpan> spans;
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

class Optimizer {
 public:
  /// `decays[i]`: logical tensor i has weight decay (two or more dims). `units` are in canonical
  /// order. Allocates masters (where weights are not float32) and moments.
  Optimizer(const AdamWOptions& options, std::vector<OptimizerUnit> units, std::vector<bool> decays,
            Device& device);

  TensorView master(int64_t unit) const { return state_[static_cast<size_t>(unit)].master; }
  TensorView moment1(int64_t unit) const { return state_[static_cast<size_t>(unit)].moment1; }
  TensorView moment2(int64_t unit) const { return state_[static_cast<size_t>(unit)].moment2; }
  /// Updates that a logical tensor has had.
  int64_t updates(int64_t tensor) const { return updates_[static_cast<size_t>(tensor)]; }

  /// weight ← round(master), all units.
  void round_weights(OpContext& context);

  /// Σ g² of every logical tensor in fp64, added in canonical order. Not finite as soon as one
  /// element is not.
  double sum_squares(OpContext& context);

  /// After sum_squares: the first logical tensor whose sum was not finite, −1: none.
  int64_t first_nonfinite() const;

  /// Forgets moments and update counts.
  void reset();

  /// One update of every tensor with the gradients scaled by `gradient_scale`.
  void update(OpContext& context, float gradient_scale, double lr);

 private:
  struct State {
    Buffer master_buffer, moment1_buffer, moment2_buffer;
    TensorView master, moment1, moment2;
  };

  AdamWOptions options_;
  std::vector<OptimizerUnit> units_;
  std::vector<bool> decays_;
  std::vector<State> state_;
  std::vector<int64_t> updates_;
  std::vector<double> squares_;
};

}  // namespace plait
