// What ranks of one group say to each other: collectives with one fixed order of sums, and
// point-to-point messages.
//
// Thread: the rank's own. Every member makes the same calls in the same order. Each call carries
// the group's sequence number, operation and size in front of its data; a member that finds another
// operation, number or size throws `desync` with both. Every wait ends with the fabric's abort or
// deadline and then throws. Nothing is allocated in a call.
//
// Sums: ((x0 + x1) + x2) + … by ascending index in the group, in fp32, rounded once to the buffer's
// dtype; each element is summed by one member and copied to the others, so all hold the same bits,
// and threads and processes give the same bits. dtypes: float32, bfloat16, float16. A group of one
// makes every call a no-op (or a copy).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/tensor.h"
#include "kernels/device/thread_pool.h"

namespace plait {

class Endpoint;

/// Which conversation of a group a message belongs to. Each (source, destination, lane) is a FIFO
/// with one message under way.
enum class Lane : uint32_t { kCollective, kForward, kBackward, kTied };
inline constexpr int kLanes = 4;

/// Checked at the receiving end: micro-batch and destination stage of a boundary tensor.
struct MessageKey {
  int64_t micro = 0;
  int64_t stage = 0;
  bool operator==(const MessageKey&) const = default;
};

/// Since the communicator was made.
struct Traffic {
  int64_t bytes = 0;     ///< of payload that this rank sent
  int64_t messages = 0;  ///< likewise
  int64_t wait_ns = 0;   ///< blocked in its calls
};

/// Which collective; also the index of its Traffic.
enum class CollectiveKind {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kBarrier,
  kSendReceive,
};
inline constexpr int kCollectiveKinds = 6;
/// "all_reduce", …
const char* collective_name(CollectiveKind kind);

class Communicator {
 public:
  /// `endpoint` is the calling rank's door and outlives this; `ranks` are the members by ascending
  /// coordinate, the endpoint's own among them; `name` ("tensor", "data", …) and `id` are the same
  /// on all members and `id` differs from that of every other group of the rank. `pool` may be
  /// null.
  Communicator(Endpoint& endpoint, std::string name, uint32_t id, std::vector<int64_t> ranks,
               ThreadPool* pool);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  int64_t index() const { return index_; }
  int64_t rank_of(int64_t index) const { return ranks_[static_cast<size_t>(index)]; }
  const std::string& name() const { return name_; }

  /// buffer ← Σ over members, in place, on all.
  void all_reduce(TensorView buffer);
  /// buffer [float32] ← maximum over members, on all.
  void all_reduce_max(TensorView buffer);
  /// to ← Σ over members of part `index()` of `from`, which has size() equal parts. `to` may be
  /// that very part of `from`; other parts keep their values.
  void reduce_scatter(TensorView from, TensorView to);
  /// to, size() equal parts, ← `from` of each member in order. `from` may be the own part of `to`.
  void all_gather(TensorView from, TensorView to);
  /// The same for plain bytes: `to` holds size() · bytes.
  void all_gather_bytes(const void* from, int64_t bytes, void* to);
  void broadcast(TensorView buffer, int64_t root);
  void broadcast_bytes(void* data, int64_t bytes, int64_t root);
  void barrier();

  /// A collective in two halves, so that a product can run between them: the first posts this
  /// member's part, `finish` completes it. Buffers stay untouched in between; one is open at a
  /// time and no other collective call of this communicator comes between.
  void start_all_reduce(TensorView buffer);
  void start_reduce_scatter(TensorView from, TensorView to);
  void start_all_gather(TensorView from, TensorView to);
  void finish();

  /// Starts sending; `from` must stay until the message is taken: the next `send` on the lane or
  /// wait_sent. Waits at most for the receipt of the lane's previous message.
  void send(int64_t peer, Lane lane, MessageKey key, TensorView from);
  void wait_sent(int64_t peer, Lane lane);
  /// Waits for the lane's next message, whose key and bytes must be these, and copies it to `to`.
  void receive(int64_t peer, Lane lane, MessageKey key, TensorView to);

  const Traffic& traffic(CollectiveKind kind) const {
    return traffic_[static_cast<size_t>(kind)];
  }

 private:
  struct Open;
  Endpoint& endpoint_;
  std::string name_;
  uint32_t id_;
  std::vector<int64_t> ranks_;
  int64_t index_ = 0;
  ThreadPool* pool_;
  uint64_t sequence_ = 0;
  Traffic traffic_[kCollectiveKinds];
  std::unique_ptr<Open> open_;
};

}  // namespace plait
