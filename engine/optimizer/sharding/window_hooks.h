// Memory that units take in turn where ZeRO keeps only slices (1910.02054): whole fp32 gradients
// while a unit's backward pass writes them (stages 2, 3), whole weights while a pass reads them
// (stage 3). At most two units have either at a time.
//
// A unit's views always name memory of its size, if only that of a window which another one may
// hold, so that plans and measuring passes work. In a measuring pass nothing is taken or sent.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/optimizer/sharding/batch_parts.h"
#include "engine/optimizer/sharding/sharded_unit.h"

namespace plait {

/// Up to two equal pieces of communication memory.
class Windows {
 public:
  static constexpr int kMost = 2;
  static constexpr int kNone = -1;

  Windows() = default;
  /// `wanted` pieces, but no more than kMost.
  Windows(Device& device, int64_t wanted, int64_t bytes);

  /// A free piece, or kNone.
  int take();
  void give_back(int window) { is_taken_[window] = false; }
  TensorView view(int window, DType dtype, int64_t elements) const {
    return buffers_[static_cast<size_t>(window)].view(dtype, {elements});
  }

 private:
  std::vector<Buffer> buffers_;
  bool is_taken_[kMost] = {};
};

class WindowHooks final : public UnitHooks {
 public:
  struct Options {
    Wholeness whole;
    bool is_overlapping = true;  ///< a reduction runs beside what the rank computes next
    int64_t batch_parts = 1;     ///< more than one only where gradients are whole
  };
  /// Allocates windows for what is not whole and binds all units to them. `chunks` and `data` are
  /// borrowed.
  WindowHooks(const Options& options, ShardedChunks& chunks, Communicator& data, Device& device);

  bool weights_needed(OpContext& context, Unit& unit) override;
  void weights_done(Unit& unit) override;
  GradientMode gradients_begin(OpContext& context, Unit& unit, GradientUse use,
                               GradientMode mode) override;
  void gradients_end(OpContext& context, Unit& unit, GradientUse use) override;

  /// The next reduction of each use replaces what its slice holds; one under way is dropped.
  void begin_step(int64_t micro_batches);
  /// Ends the reduction under way: before any other collective of the data axis. Its sum is in the
  /// slice after `finish`.
  void finish(OpContext& context);
  /// The collective's part of it alone, which needs no context.
  void complete();
  /// Whole gradients: the sum of the batch's parts, before it is reduced.
  void join_parts(OpContext& context, const ShardedUnit& unit, GradientUse use) {
    parts_.finish(context, unit, use);
  }
  /// Slices of uses that had no gradient since begin_step become zero.
  void clear_unused();

 private:
  /// One use of one unit.
  struct Use {
    int window = Windows::kNone;  ///< its pass is writing
    bool is_fresh = true;         ///< its slice has nothing of this step
  };
  struct Entry {
    ShardedUnit* unit = nullptr;
    int weight_window = Windows::kNone;
    int64_t readers = 0;
    std::array<Use, kGradientUses> uses;
  };
  struct Reduction {
    Entry* entry = nullptr;  ///< null: none under way
    GradientUse use = GradientUse::kFirst;
    int window = Windows::kNone;
    bool is_posted = false;  ///< the collective is open
  };

  Entry& entry(const Unit& unit) { return entries_[index_.at(&unit)]; }
  void bind(Entry& entry, GradientUse use, int window);
  TensorView gradient_window(const Entry& entry, int window) const;
  TensorView window_slice(const Entry& entry, int window) const;  ///< the own slice of it

  Options options_;
  Communicator& data_;
  Windows weights_, gradients_;
  BatchParts parts_;
  std::vector<Entry> entries_;
  std::unordered_map<const Unit*, size_t> index_;
  Reduction reduction_;
};

}  // namespace plait
