// What every op call carries.
//
// Ops are functions `name(OpContext&, Arguments)`: they check their arguments once, pick the first
// implementation in the visible list that supports them, and run it. In a measuring pass (see
// Workspace) they check and take their scratch memory, but compute nothing.
//
// Letters of all ops: M rows (batch × sequence), B batch, S sequence, H hidden, A query heads, G
// key/value heads, D head size, F feed-forward, V vocabulary, N and K outputs and inputs of a
// linear. The "compute dtype" is float32, bfloat16 or float16; the residual stream may be float32
// besides.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/base/error.h"
#include "kernels/device/device.h"

namespace plait {

struct Kernels;

struct OpContext {
  Device& device;
  const Kernels& kernels;
  Workspace& workspace;
  const std::atomic<bool>* is_aborted = nullptr;  ///< looked at by every op; null: never
  std::atomic<uint64_t>* progress = nullptr;      ///< counts ops, for whoever watches; may be null

  bool is_measuring() const { return workspace.is_measuring(); }
  ThreadPool& pool() const { return device.pool(); }
  /// Every op calls it first: counts progress, and throws ABORTED/aborted once the flag is set.
  void check_aborted() const {
    if (progress != nullptr) progress->fetch_add(1, std::memory_order_relaxed);
    if (is_aborted != nullptr && is_aborted->load(std::memory_order_relaxed)) {
      throw Error("aborted", "the engine was aborted");
    }
  }
};

/// Whether a gradient replaces what its buffer holds or is added to it.
enum class GradientMode { kOverwrite, kAccumulate };

}  // namespace plait
