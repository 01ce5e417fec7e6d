#include "engine/comm/stream_link.h"

#include <new>
#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kLinkTickMs = 100;
constexpr int64_t kLeaveNs = 500'000'000;
/// Of one peer in one turn of the link's thread: the others come in between.
constexpr int64_t kTurnBytes = 1 << 20;
/// Of one call of a rank that sends.
constexpr int64_t kSendBytes = 16 << 20;
/// Of one look of a rank that waits.
constexpr int64_t kPollBytes = 64 << 10;

Error no_memory() { return Error("no_memory", "no memory for a message of another process"); }

}  // namespace

StreamLink::StreamLink(Fabric& fabric, Clock& clock, std::vector<RemoteRanks> peers,
                       std::unique_ptr<Streams> streams, const ThreadHooks& hooks)
    : fabric_(fabric),
      clock_(clock),
      streams_(std::move(streams)),
      peer_of_rank_(static_cast<size_t>(fabric.options().world), -1),
      states_(peers.size()) {
  for (size_t peer = 0; peer < peers.size(); ++peer) {
    remotes_.push_back(std::make_unique<Remote>(fabric, peers[peer]));
    for (int64_t i = 0; i < peers[peer].local_ranks; ++i) {
      peer_of_rank_.at(static_cast<size_t>(peers[peer].first_rank + i)) =
          static_cast<int32_t>(peer);
    }
  }
  thread_ = start_library_thread([this, hooks] { run(hooks); });
}

StreamLink::~StreamLink() {
  is_ending_.store(true);
  streams_->wake();
  thread_.join();
}

size_t StreamLink::peer_of(int64_t rank) const {
  const int32_t peer = peer_of_rank_.at(static_cast<size_t>(rank));
  check(peer >= 0, "a link carries messages of other processes alone");
  return static_cast<size_t>(peer);
}

void StreamLink::send(const MessageHead& head, const void* data, std::atomic<bool>* is_sent) {
  const size_t peer = peer_of(head.destination);
  remotes_[peer]->outbox.add(head, data, is_sent);
  if (remotes_[peer]->is_closed.load()) give_up(*remotes_[peer]);
  pump(peer, kSendBytes, true);
}

void StreamLink::released(const MessageHead& head) {
  const size_t peer = peer_of(head.source);
  remotes_[peer]->outbox.add_release(head);
  pump(peer, kSendBytes, true);
}

void StreamLink::poll(int64_t rank) {
  const size_t peer = peer_of(rank);
  Remote& remote = *remotes_[peer];
  if (!streams_->may_poll() || remote.is_closed.load() || is_stopped_.load()) return;
  try {
    {
      const std::unique_lock lock(remote.reading, std::try_to_lock);
      if (!lock.owns_lock() || remote.is_closed.load()) return;
      take(peer, kPollBytes);
    }
    if (remote.is_closed.load()) return streams_->wake();  // the link's thread judges it
    pump(peer, kTurnBytes, true);                          // what was read may have freed channels
  } catch (const Error& error) {
    fabric_.abort(error);
  } catch (const std::bad_alloc&) {
    fabric_.abort(no_memory());
  }
}

void StreamLink::stop() {
  is_stopped_.store(true);
  for (const std::unique_ptr<Remote>& remote : remotes_) remote->outbox.drop();
}

/// `is_waker`: what remains is told to the link's thread, which otherwise is the one that asks.
StreamOutbox::Progress StreamLink::pump(size_t peer, int64_t budget, bool is_waker) {
  Remote& remote = *remotes_[peer];
  const StreamOutbox::Progress progress = remote.outbox.pump(
      [&](const void* data, int64_t bytes) {
        return streams_->write(static_cast<int64_t>(peer), data, bytes);
      },
      [&](int64_t rank) { fabric_.wake(rank); }, budget);
  if (progress == StreamOutbox::Progress::kBlocked || progress == StreamOutbox::Progress::kMore) {
    if (!remote.has_output.exchange(true) && is_waker) streams_->wake();
  } else if (progress == StreamOutbox::Progress::kClosed) {
    give_up(remote);
  }
  return progress;
}

void StreamLink::run(const ThreadHooks& hooks) {
  enter_library_thread("plait-link", false);
  if (hooks.start) hooks.start("plait-link");
  carry();
  if (hooks.stop) hooks.stop();
}

void StreamLink::carry() {
  try {
    while (!is_ending_.load()) turn();
    for (const std::unique_ptr<Remote>& remote : remotes_) remote->outbox.add_leave();
    const int64_t limit_ns = clock_.now_ns() + kLeaveNs;
    while (!leave() && clock_.now_ns() < limit_ns) turn();
  } catch (const Error& error) {
    fabric_.abort(error);
  } catch (const std::bad_alloc&) {
    fabric_.abort(no_memory());
  }
  if (!is_stopped_.load()) stop();
  if (fabric_.is_aborted()) streams_->abandon();
}

/// True when nothing is left to write.
bool StreamLink::leave() {
  bool is_done = true;
  for (size_t peer = 0; peer < remotes_.size(); ++peer) {
    if (remotes_[peer]->is_closed) continue;
    const StreamOutbox::Progress progress = pump(peer, kTurnBytes, false);
    is_done = is_done && (progress == StreamOutbox::Progress::kIdle ||
                          progress == StreamOutbox::Progress::kClosed);
  }
  return is_done;
}

void StreamLink::turn() {
  if (fabric_.is_aborted() && !is_stopped_.load()) stop();
  for (size_t peer = 0; peer < remotes_.size(); ++peer) {
    states_[peer].is_ignored = remotes_[peer]->is_closed;
    states_[peer].wants_write = remotes_[peer]->has_output.load();
  }
  streams_->wait(&states_, kLinkTickMs);
  for (size_t peer = 0; peer < remotes_.size(); ++peer) {
    Remote& remote = *remotes_[peer];
    const bool is_readable = !remote.is_closed && states_[peer].is_readable;
    if (is_readable) read(peer);
    // What was read may have freed channels.
    if (is_readable || states_[peer].wants_write) {
      remote.has_output.store(false);
      pump(peer, kTurnBytes, false);
    }
    lose_if_closed(remote);
  }
}

void StreamLink::read(size_t peer) {
  const std::lock_guard lock(remotes_[peer]->reading);
  if (!remotes_[peer]->is_closed) take(peer, kTurnBytes);
}

/// With the peer's inbox locked.
void StreamLink::take(size_t peer, int64_t budget) {
  Remote& remote = *remotes_[peer];
  const StreamInbox::Progress progress = remote.inbox.take(
      [&](void* data, int64_t bytes) {
        return streams_->read(static_cast<int64_t>(peer), data, bytes);
      },
      budget);
  remote.is_closed.store(progress == StreamInbox::Progress::kClosed);
}

/// A message cannot reach the peer. Whether it is lost or has left is in what it sent before: the
/// link's thread reads that.
void StreamLink::give_up(Remote& remote) {
  if (!remote.is_unreachable.exchange(true)) streams_->wake();
}

void StreamLink::lose_if_closed(const Remote& remote) {
  if (!remote.is_closed || is_ending_.load() || is_stopped_.load()) return;
  if (remote.inbox.has_left() && !remote.is_unreachable.load()) return;
  fabric_.abort(Error("peer_lost", "the connection to another process has closed")
                    .with("rank", remote.ranks.first_rank)
                    .with("ranks", remote.ranks.local_ranks)
                    .with("transport", name())
                    .rank(static_cast<int32_t>(remote.ranks.first_rank))
                    .subsystem("comm"));
}

}  // namespace plait
