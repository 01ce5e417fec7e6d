// One rank of a measurement: its device, its door to the others, and what all ranks agree on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/fabric.h"
#include "kernels/base/env.h"
#include "kernels/base/function_ref.h"
#include "kernels/device/device.h"

namespace plait {

/// Thrown on every rank at a point that all agree on, when one of them was to stop.
struct MeasureStopped {};

/// How often something is timed.
struct MeasureEffort {
  int64_t warm_ups = 5;
  int64_t least = 20;    ///< repetitions …
  double seconds = 0.2;  ///< … and until so much time has passed
  double longest = 1;    ///< but no more than fit into it (three always)
};

class MeasureRank {
 public:
  struct Place {
    int64_t rank = 0;
    uint32_t group = 0;  ///< id of the communicator of all ranks
  };
  /// Both outlive the rank.
  struct Flags {
    const std::atomic<bool>* is_stop_wanted;  ///< looked at whenever ranks agree
    const std::atomic<bool>* is_aborted;      ///< looked at by every op
  };
  /// `fabric` and `clock` outlive this.
  MeasureRank(Fabric& fabric, const Place& place, const DeviceOptions& device, Clock& clock,
              const Flags& flags);

  int64_t rank() const { return rank_; }
  int64_t world() const { return everyone_->size(); }
  Device& device() { return *device_; }
  const std::atomic<bool>* is_aborted() const { return flags_.is_aborted; }
  double now() { return static_cast<double>(clock_.now_ns()) * 1e-9; }

  /// Means over all ranks, the same bits on each. Throws MeasureStopped on all when one wants to
  /// stop: every rank calls it equally often.
  void agree(std::span<double> values);
  void barrier() { everyone_->barrier(); }

  /// A communicator of `ranks`, kept until this goes: peers may read in its buffers for that long.
  Communicator& join(const char* name, uint32_t group, std::vector<int64_t> ranks);
  /// Zeroed memory that is kept likewise; what an earlier call gave is gone. No call of a peer that
  /// ended well reads it any more.
  TensorView message(int64_t bytes);

  /// Median of the time of `body`, which all ranks run at once, averaged over them.
  double time(const MeasureEffort& effort, FunctionRef<void()> body);
  /// The same for a chain of parts that always run one after the other, each timed by itself. Empty
  /// when one pass of the chain takes longer than `effort.longest`.
  std::vector<double> time_parts(const MeasureEffort& effort, size_t parts,
                                 FunctionRef<void(size_t part)> body);

 private:
  int64_t repetitions(const MeasureEffort& effort, double first) const;

  Clock& clock_;
  const Flags flags_;
  Endpoint& endpoint_;
  const int64_t rank_;
  std::unique_ptr<Device> device_;
  Buffer message_;
  Buffer agreed_;
  std::unique_ptr<Communicator> everyone_;
  std::vector<std::unique_ptr<Communicator>> groups_;
};

}  // namespace plait
