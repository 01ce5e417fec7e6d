// What ranks of one group say to each other: collectives with one fixed order of sums, and
// point-to-point messages.
//
// Thread: the rank's own. Every member makes the same calls in the same order. Each call carries
// the group's sequence number, operation and size in front of its data; a member that finds another
// operation, number or size throws `desync` with both. Every wait ends with the fabric's abort or
// deadline and then throws. Nothing is allocated in a call.
//
// Sums: ((x0 + x1) + x2) + … by ascending index in the group, in fp32, rounded once to the buffer's
// dtype, or the tree of ordered_sum.h; each element is summed by one member and copied to the
// others, so all hold the same bits, and threads and processes give the same bits. dtypes: float32,
// bfloat16, float16. A group of one makes every call a no-op (or a copy).
//
// Within a process nothing is copied on the way: peers read a member's buffers in place, and write
// sums into the buffer of an all-reduce, until its call ends. After a call that threw they may
// still do so for a moment: what frees or reuses such buffers first has all ranks out of their
// calls (see Fabric).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/comm/ordered_sum.h"
#include "kernels/base/tensor.h"
#include "kernels/device/thread_pool.h"

namespace plait {

class Endpoint;
struct Inbound;
struct MessageHead;
struct Outbound;

/// Which conversation of a group a message belongs to. Each (source, destination, lane) is a FIFO
/// with one message under way.
enum class Lane : uint32_t { kCollective, kForward, kBackward, kTied };
inline constexpr int kLanes = 4;
/// With those that collectives use inside.
inline constexpr int kAllLanes = kLanes + 1;

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
  /// `order` is that of all sums; a tree needs a power of two of members.
  Communicator(Endpoint& endpoint, std::string name, uint32_t id, std::vector<int64_t> ranks,
               ThreadPool* pool, SumOrder order = SumOrder::kAscending);
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

  /// Any thread; while the rank is in a call, the three numbers may be of different moments.
  Traffic traffic(CollectiveKind kind) const;

 private:
  /// Traffic as the rank's thread counts it while others read.
  struct Counts {
    std::atomic<int64_t> bytes{0}, messages{0}, wait_ns{0};
  };
  /// Lane of a collective's second message between two processes: a fast peer's must not queue up
  /// behind its first one, which this rank may not have read yet.
  static constexpr uint32_t kSecondLane = kLanes;

  /// The channels to and from one member. Borrowed from the endpoint; unset for the member itself.
  struct Peer {
    Inbound* inbound[kAllLanes] = {};
    Outbound* outbound[kAllLanes] = {};
    bool is_local = false;                              ///< a rank of this process
    uint64_t sent[kLanes] = {}, received[kLanes] = {};  // messages of send and receive
  };
  /// How a collective travels.
  enum class Way : uint32_t {
    kGather,        ///< a part of each to all
    kDirectReduce,  ///< whole buffers to all, every member adds
    kOwnerReduce,   ///< slices to their owners, sums back to all
    kScatterReduce,
    kBroadcast,
    kBarrier,
    kMessage,
  };
  /// A call under way.
  struct Call {
    CollectiveKind kind = CollectiveKind::kBarrier;
    Way way = Way::kBarrier;
    bool is_maximum = false;
    DType dtype = DType::kUInt8;
    const char* name = "";
    uint64_t sequence = 0;
    int64_t total = 0;  ///< bytes of the whole operation
    MessageKey key;     ///< of a message; a broadcast has its root for `micro`
    char* from = nullptr;
    char* to = nullptr;
    uint64_t record = 0;  ///< number in the ring
  };
  struct Purpose;
  struct Part {
    char* data;
    int64_t bytes;
  };

  void start(Call call);
  void start_reduce(TensorView buffer, bool is_maximum);
  void post_first(const Call& call);
  void finish_gather(const Call& call);
  void finish_direct_reduce(const Call& call);
  void finish_owner_reduce(const Call& call);
  void finish_scatter_reduce(const Call& call);
  void finish_broadcast(const Call& call);

  Call message_call(const char* name, uint64_t sequence, MessageKey key, int64_t bytes) const;
  void record(Call& call);
  void end_record(const Call& call);
  Purpose purpose_of(const Call& call);
  /// Throws `desync` when a member's message shows that it is not in this collective.
  void look_for_others(const Call& call) const;
  MessageHead head_of(const Call& call, uint32_t lane, int64_t bytes) const;
  /// Whether a part of this size is copied, so that nobody waits until it is read.
  static bool is_copied(const Call& call, int64_t bytes);
  void count_sent(const Call& call, int64_t bytes);
  Peer& peer_on(int64_t peer, Lane lane);
  void post_part(const Call& call, uint32_t lane, int64_t peer, Part part);
  /// The data of the next message from `peer`, which must be of this call and size.
  const char* take_part(const Call& call, uint32_t lane, int64_t peer, int64_t bytes);
  void take_all(const Call& call, int64_t bytes);
  void release_all();
  void expect(const MessageHead& want, const MessageHead& got) const;
  void wait_sent(const Call& call, const std::vector<Outbound*>& to);
  /// The first `copies` of targets_ ← sum or maximum over parts_, of so many bytes each.
  void combine(const Call& call, int64_t bytes, size_t copies);
  void copy(void* to, const void* from, int64_t bytes);
  /// Of the member's slice in call.from.
  Part slice(const Call& call, int64_t member) const;
  /// The others in the order in which this member turns to them: each begins with another.
  int64_t other(int64_t turn) const { return (index_ + turn) % size(); }

  Endpoint& endpoint_;
  std::string name_;
  uint32_t id_;
  std::vector<int64_t> ranks_;
  int64_t index_ = 0;
  ThreadPool* pool_;
  SumOrder order_;
  uint64_t sequence_ = 0;
  Counts counts_[kCollectiveKinds];
  std::vector<Peer> peers_;         // by index
  std::vector<Inbound*> first_in_;  // of the others, in turn: first messages of collectives
  std::vector<Outbound*> first_out_, second_out_;
  // Of the running call: where each member's part starts, by index, and where results go.
  std::vector<const char*> parts_;
  std::vector<char*> targets_;
  Call call_;
  bool is_open_ = false;  // between the two halves of a collective
};

}  // namespace plait
