// Which boxes every rank of a layout holds and owns, found without an engine: stages are declared
// as a rank declares them, their units bound to no memory, and cut as the optimizer cuts its state.
// What it says of a rank equals `state_pieces` on that rank of an engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/store/shard_writer.h"
#include "engine/config/settings.h"
#include "engine/trainer/state_map.h"
#include "kernels/device/device.h"

namespace plait {

class LayoutMap {
 public:
  /// Takes model and layout of `settings`, which the rules of configurations were proved on.
  explicit LayoutMap(const Settings& settings);

  int64_t world() const;
  /// Coordinates of a rank, which name its files.
  ShardPlace place(int64_t rank) const;
  /// What a manifest numbers.
  const SortedTensors& tensors() const { return tensors_; }
  /// The pieces of a rank by (tensor, kind, first of the box), for the kinds that a checkpoint
  /// holds; their addresses are null.
  std::vector<StatePiece> pieces(int64_t rank, std::span<const StateKind> kinds) const;

 private:
  class Cutter;

  Settings settings_;
  std::unique_ptr<Device> device_;  // stages want one; nothing is computed on it
  SortedTensors tensors_;
};

}  // namespace plait
