// How a stage tells the owner of its units' memory what it is about to use, so that weights and
// gradients may exist only while they are needed (ZeRO 2 and 3, 1910.02054).
#pragma once

#include "engine/layers/parameter.h"
#include "kernels/ops/context.h"

namespace plait {

/// A tied embedding has two accumulators; every other unit has the first alone.
enum class GradientUse { kFirst, kSecond };

/// The default keeps everything where it is.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  /// Before a pass reads the unit's weights. True when they were brought in: the layer must take
  /// the change (weights_changed) before it computes.
  virtual bool weights_needed(OpContext&, Unit&) { return false; }
  /// The pass has read them for the last time.
  virtual void weights_done(Unit&) {}
  /// Before gradients of one use are written; returns the mode to write them in.
  virtual GradientMode gradients_begin(OpContext&, Unit&, GradientUse, GradientMode mode) {
    return mode;
  }
  /// This micro-batch's gradients of that use are complete.
  virtual void gradients_end(OpContext&, Unit&, GradientUse) {}
};

/// Hooks that do nothing, for units that are whole and always there. Any thread.
inline UnitHooks& no_unit_hooks() {
  static UnitHooks hooks;
  return hooks;
}

}  // namespace plait
