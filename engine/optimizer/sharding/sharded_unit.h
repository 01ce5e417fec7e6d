// One unit over the data axis: what this coordinate keeps of it, and which logical tensors lie
// there.
//
// Slice δ of d equal ones is coordinate δ's own. Slices ignore parameter borders; one may hold
// padding alone. "Whole" buffers hold the own slice at its place, so code that works on slices
// needs not know the ZeRO stage.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/layers/unit_hooks.h"
#include "engine/optimizer/optimizer.h"
#include "kernels/device/device.h"

namespace plait {

/// What every coordinate keeps whole; of the rest it keeps its own slice.
struct Wholeness {
  bool weights = true;
  bool gradients = true;
  bool state = true;  ///< masters and moments

  /// With one coordinate its slice is the whole, whatever the stage.
  static Wholeness of(int64_t zero, int64_t shards);
};

/// What two ranges share; its count is not positive where they share nothing.
UnitRange intersect(UnitRange a, UnitRange b);

/// A contiguous run of elements of one logical tensor.
struct Fragment {
  int64_t tensor = 0;  ///< canonical index
  UnitRange range;     ///< in the unit
  const Segment* segment = nullptr;
};

struct ShardPlan {
  Wholeness whole;
  int64_t shards = 1;                                                 ///< d
  int64_t shard = 0;                                                  ///< δ
  const std::unordered_map<std::string, int64_t>* tensors = nullptr;  ///< name → canonical index
};

inline constexpr int kGradientUses = 2;

class ShardedUnit {
 public:
  /// Allocates what `plan` keeps and binds what of it is whole. `unit` is sealed for plan.shards
  /// and outlives this. Throws `invariant` on a tensor that the plan does not name.
  ShardedUnit(Unit& unit, const ShardPlan& plan, Device& device);

  Unit& unit() const { return *unit_; }
  UnitRange slice() const { return slice_; }
  UnitRange state_range() const { return plan_.whole.state ? whole_range() : slice_; }
  UnitRange weight_range() const { return plan_.whole.weights ? whole_range() : slice_; }
  UnitRange gradient_range() const { return plan_.whole.gradients ? whole_range() : slice_; }
  bool has_use(GradientUse use) const {
    return use == GradientUse::kFirst || unit_->has_second_gradient();
  }

  /// [state_range] float32. The master of float32 weights is the weights' own memory.
  TensorView master() const { return master_; }
  TensorView moment1() const { return moment1_.view(DType::kFloat32, {state_range().count}); }
  TensorView moment2() const { return moment2_.view(DType::kFloat32, {state_range().count}); }
  /// Compute weights of [weight_range], of [state_range], of the own slice, and of the unit where
  /// they are whole.
  TensorView kept_weights() const {
    return plan_.whole.weights ? whole_weights() : slice_weights();
  }
  TensorView state_weights() const;
  TensorView slice_weights() const;
  TensorView whole_weights() const;
  /// [gradient_range] float32, or absent: there is no such use.
  TensorView gradient(GradientUse use) const;
  /// Of the own slice.
  TensorView slice_gradient(GradientUse use) const;

  /// In the own slice, and in state_range. Canonical order.
  const std::vector<Fragment>& slice_fragments() const { return slice_fragments_; }
  const std::vector<Fragment>& state_fragments() const { return state_fragments_; }
  /// Elements that no parameter covers.
  const std::vector<UnitRange>& gaps() const { return gaps_; }

 private:
  UnitRange whole_range() const { return {0, unit_->elements()}; }
  std::vector<Fragment> fragments(UnitRange within) const;
  void find_gaps();

  Unit* unit_;
  ShardPlan plan_;
  UnitRange slice_;
  Buffer weights_, master_buffer_, moment1_, moment2_;
  std::array<Buffer, kGradientUses> gradients_;
  TensorView master_;
  std::vector<Fragment> slice_fragments_, state_fragments_;
  std::vector<UnitRange> gaps_;
};

/// All units of a rank by chunk, in canonical order.
using ShardedChunks = std::vector<std::vector<ShardedUnit>>;

}  // namespace plait
