// One rank's door to its peers: its mailbox, both ends of its channels, and the one place where it
// waits.
//
// A channel goes one way and holds one message. Its sender fills it while it is empty, its receiver
// empties it; `state` hands everything else from one to the other. Both ends are made once, by
// whoever needs them first, and live as long as the fabric: what another process sends before the
// local communicator exists waits there.
//
// A rank that waits for several channels marks them and sleeps until the last has changed: it wakes
// once, however many ranks share its core. Where each rank has a core it looks for a moment first.
//
// Thread: post, wait and release are called by the rank's own thread; inbound, outbound, wake and
// settle by any.
#pragma once

#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "engine/comm/fabric.h"
#include "engine/comm/operation_ring.h"
#include "kernels/device/memory.h"

namespace plait {

/// The receiving end, in the mailbox of the destination.
struct Inbound {
  static constexpr uint32_t kFull = 1;
  static constexpr uint32_t kAwaited = 2;  ///< the other side sleeps until kFull changes

  /// Acquires what the other side did before.
  bool is_full() const { return (state.load(std::memory_order_acquire) & kFull) != 0; }

  int64_t source = 0;
  MessageHead head;
  const void* data = nullptr;
  std::atomic<uint32_t> state{0};
  bool is_from_link = false;
  Buffer memory;  ///< for what is not read in place; grows, is never given back
};

/// The sending end, at the source.
struct Outbound {
  bool is_taken() const {
    return inbound != nullptr ? !inbound->is_full() : is_sent.load(std::memory_order_acquire);
  }

  int64_t destination = 0;
  Inbound* inbound = nullptr;       ///< null: the destination is reached by the link
  std::atomic<bool> is_sent{true};  ///< by the link
  Buffer memory;                    ///< for copies that the link sends
};

/// What a wait is for, as its errors name it.
struct WaitPurpose {
  WaitPurpose(const char* communicator_name, const char* operation_name, uint64_t number,
              std::atomic<int64_t>* spent_ns)
      : communicator(communicator_name),
        operation(operation_name),
        sequence(number),
        wait_ns(spent_ns) {}
  virtual ~WaitPurpose() = default;
  /// Called every 100 ms of a wait: throws when what is awaited will never come.
  virtual void look() const {}

  const char* communicator;
  const char* operation;
  uint64_t sequence;
  std::atomic<int64_t>* wait_ns;  ///< grows by the time that was spent; any thread reads it
};

class Endpoint {
 public:
  Endpoint(Fabric& fabric, int64_t rank);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Fabric& fabric() { return fabric_; }
  int64_t rank() const { return rank_; }
  OperationRing& ring() { return ring_; }
  int64_t now_ns() { return fabric_.clock_.now_ns(); }
  /// Gives back the memory of channels of groups [first, first + count), which nobody uses any
  /// more and in which no message is under way.
  void give_back(uint32_t first, uint32_t count);
  /// Of the mailbox's own memory.
  int64_t mailbox_bytes() const { return mailbox_bytes_.load(std::memory_order_relaxed); }

  /// The end of a channel into, out of this rank.
  Inbound& inbound(int64_t source, uint32_t communicator, uint32_t lane);
  Outbound& outbound(int64_t destination, uint32_t communicator, uint32_t lane);

  /// Sends once the channel's previous message is taken. `data` stays until wait_sent returns.
  /// Source, destination and epoch of the head are filled in.
  void post(Outbound& to, MessageHead head, const void* data, const WaitPurpose& purpose);
  /// The same with a copy: `data` is free at once.
  void post_copy(Outbound& to, MessageHead head, const void* data, const WaitPurpose& purpose);
  /// Until the last message posted to each is no longer used.
  void wait_sent(std::span<Outbound* const> to, const WaitPurpose& purpose);
  /// Until a message is in each; head and data stay until `release`.
  void wait_full(std::span<Inbound* const> from, const WaitPurpose& purpose);
  void release(Inbound& from);
  /// Makes a waiting rank look again.
  void wake();
  /// Whether the rank sleeps until a peer has done its part. Any thread.
  bool is_waiting() const { return is_waiting_.load(std::memory_order_relaxed); }
  /// Until the link has sent all that was posted here, or the clock shows `deadline_ns`: false.
  bool settle(int64_t deadline_ns);

 private:
  friend class Fabric;
  struct ChannelKey {
    uint32_t communicator, lane;
    int64_t peer;
    auto operator<=>(const ChannelKey&) const = default;
  };
  struct Awaited;
  void wait(const Awaited& awaited);
  size_t spin(const Awaited& awaited, size_t missing);
  void block(const Awaited& awaited, int64_t begin_ns);
  void mark(const Awaited& awaited);
  int64_t next_tick_ms(const Awaited& awaited, int64_t waited_ms);
  void count_down();
  void* reserve(Buffer& memory, int64_t bytes);
  void send(Outbound& to, MessageHead& head, const void* data);
  void deliver(Inbound& from, const MessageHead& head, const void* data, bool is_from_link);

  Fabric& fabric_;
  const int64_t rank_;
  OperationRing ring_;
  std::mutex channels_mutex_;  // guards the two maps, not what they hold
  std::map<ChannelKey, Inbound> inbound_;
  std::map<ChannelKey, Outbound> outbound_;
  std::atomic<int64_t> mailbox_bytes_{0};
  std::mutex wait_mutex_;  // held from the last look at what is awaited to the sleep
  std::condition_variable changed_;
  std::atomic<int64_t> missing_{0};  // marked channels that have not changed yet
  std::atomic<bool> is_waiting_{false};
};

}  // namespace plait
