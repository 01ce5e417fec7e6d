// All ranks of a world as one process sees them: mailboxes for its own ranks, a link to the others.
//
// A message goes from a rank's endpoint into the mailbox of its destination. Between ranks of one
// process it is a pointer that the receiver reads in place; from another process a link delivers
// it in memory of the mailbox. Channels (source, destination, communicator, lane) are FIFO and hold
// one message that is not yet released.
//
// After an abort no wait lasts, so a peer, or a link, may use a rank's buffer for a moment after
// that rank has left its call. Whoever frees such buffers first has all ranks of the process out of
// their calls, and then asks `settle`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/comm/operation_ring.h"
#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait {

/// In front of each message; both ends check it. Plain data, little endian on the wire.
struct MessageHead {
  uint32_t communicator = 0;  ///< id of the group
  uint32_t lane = 0;
  int32_t source = 0;            ///< rank
  int32_t destination = 0;       ///< rank
  uint32_t operation = 0;        ///< CollectiveKind, and which of its messages
  uint32_t epoch = 0;            ///< of the fabric; older ones are dropped
  uint64_t sequence = 0;         ///< of the operation in its group
  int64_t bytes = 0;             ///< of this message
  int64_t total = 0;             ///< of the whole operation
  int64_t micro = 0, stage = 0;  ///< MessageKey
};

/// A way to the ranks of other processes. Thread-safe. A link that fails calls Fabric::abort.
class Link {
 public:
  virtual ~Link() = default;
  /// Sends head and data; `data` stays until `*is_sent` turns true (the link then calls
  /// Fabric::wake(head.source)). After an abort it turns true as well, as soon as the link will not
  /// look at `data` any more. Called once the channel's previous message is sent.
  virtual void send(const MessageHead& head, const void* data, std::atomic<bool>* is_sent) = 0;
  /// The mailbox has taken the message with this head: its memory is free for the next one.
  virtual void released(const MessageHead& head) = 0;
  /// Takes in what has come from the process of `rank`, unless another thread is at it: so that a
  /// rank that waits need not be woken. Any thread; what fails aborts the fabric.
  virtual void poll(int64_t rank) { (void)rank; }
  /// The fabric is aborted; Fabric::abort calls it, in any thread, without locks. A link that does
  /// not notice by itself, or late, stops touching what `send` was given before this returns.
  virtual void stop() {}
  /// "tcp", "shm", "mpi".
  virtual const char* name() const = 0;
};

class Endpoint;

class Fabric {
 public:
  struct Options {
    int64_t world = 1;
    int64_t first_rank = 0;
    int64_t local_ranks = 1;
    /// A wait in which nothing arrives for so long throws `stalled`; −1: none. May change later.
    int64_t wait_limit_ms = -1;
    bool may_spin = false;  ///< there is a core for each local rank
    uint32_t epoch = 0;     ///< messages of another one are dropped
  };
  /// `clock` outlives this; communicators do not.
  Fabric(const Options& options, Clock& clock);
  ~Fabric();

  const Options& options() const { return options_; }
  bool is_local(int64_t rank) const {
    return rank >= options_.first_rank && rank < options_.first_rank + options_.local_ranks;
  }
  Endpoint& endpoint(int64_t rank);
  /// The first of `count` group ids that nobody has had. Processes that ask in the same order get
  /// the same.
  uint32_t take_group_ids(uint32_t count) { return next_group_.fetch_add(count); }
  /// Before any message: how ranks of other processes are reached.
  void attach(std::unique_ptr<Link> link);

  /// Every wait, now and later, throws `error`; the first call counts. Any thread. `on_abort` is
  /// called once, outside locks, by the thread that aborted.
  void abort(const Error& error);
  bool is_aborted() const { return is_aborted_.load(std::memory_order_acquire); }
  /// What `abort` was given first.
  std::optional<Error> abort_error() const;
  void set_on_abort(std::function<void(const Error&)> on_abort);
  void set_wait_limit_ms(int64_t limit);
  /// Waits until the link reads no buffer of a local rank. Its ranks are out of their calls. False:
  /// it still does.
  bool settle(int64_t timeout_ms);

  /// For links: a message for a local rank has arrived; its bytes are copied or already lie at
  /// `place`. Returns where to put the payload (memory of the mailbox, valid until `deliver`), or
  /// null for a message of another epoch, which is to be dropped. Throws `corrupt` for a head that
  /// cannot be true, or when the channel's previous message is not released yet. One thread for
  /// each channel.
  void* place(const MessageHead& head);
  void deliver(const MessageHead& head);
  void wake(int64_t rank);

 private:
  friend class Endpoint;
  void throw_if_aborted() const;

  Options options_;
  Clock& clock_;
  std::atomic<uint32_t> next_group_{1};
  std::atomic<bool> is_aborted_{false};
  std::atomic<int64_t> wait_limit_ms_;
  mutable std::mutex abort_mutex_;  // guards the two below
  std::optional<Error> error_;
  std::function<void(const Error&)> on_abort_;
  std::unique_ptr<Link> link_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  // of local ranks
};

}  // namespace plait
