// Boundary tensors between pipeline stages: [rows, H] in the residual dtype, so a boundary never
// rounds. Where all tensor ranks hold the same rows, each sends its slice alone and the receivers
// gather (PTD-P, 2104.04473, section 4.1); under sequence parallel each sends its own rows.
//
// Thread: the rank's own. Sending copies into a buffer of the lane, so that the stage's buffer is
// free when `send` returns; it waits at most for the receipt of the lane's previous message.
#pragma once

#include <cstdint>

#include "engine/comm/communicator.h"
#include "engine/tensor_parallel/tensor_group.h"
#include "kernels/device/device.h"
#include "kernels/ops/context.h"

namespace plait {

class Transfers {
 public:
  struct Options {
    Communicator* pipeline = nullptr;  ///< borrowed
    TensorGroup tensor;
    bool is_scattering = true;  ///< key layout.scatter_gather
    DType dtype = DType::kFloat32;
    int64_t elements = 0;  ///< of the largest boundary tensor on this rank
  };
  Transfers(const Options& options, Device& device);

  /// `direction`: Lane::kForward to the next coordinate, Lane::kBackward to the one before (both
  /// wrap). Nothing happens in a measuring pass but the taking of workspace.
  void send(OpContext& context, Lane direction, MessageKey key, TensorView from);
  void receive(OpContext& context, Lane direction, MessageKey key, TensorView to);

  /// Blocked in receives since the last call.
  int64_t take_wait_ns();

 private:
  bool is_cut() const;
  int64_t slice_elements(int64_t elements) const;
  int64_t neighbour(int64_t step) const;
  void receive_slices(OpContext& context, Lane direction, MessageKey key, TensorView to);

  Options options_;
  Buffer buffers_[2];  // of the two lanes
  int64_t seen_wait_ns_ = 0;
};

}  // namespace plait
