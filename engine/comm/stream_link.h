// The link to the ranks of other processes over byte streams, whatever carries them.
//
// A rank that sends writes as much as the stream takes at once; what remains, and all that arrives,
// is the work of one thread for each process. It never waits for a peer: while a stream takes no
// more, it reads, so two processes that send to each other do not stop each other. A rank that
// waits reads for a moment too, so that a message that comes soon wakes nobody else first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/comm/fabric.h"
#include "engine/comm/stream_frame.h"
#include "engine/comm/stream_inbox.h"
#include "engine/comm/stream_outbox.h"
#include "engine/comm/streams.h"
#include "kernels/base/env.h"
#include "kernels/device/thread_pool.h"

namespace plait {

class StreamLink final : public Link {
 public:
  /// `peers` by the number that `streams` gives them; between them and the fabric's own ranks lies
  /// the whole world. Fabric and clock outlive this.
  StreamLink(Fabric& fabric, Clock& clock, std::vector<RemoteRanks> peers,
             std::unique_ptr<Streams> streams, const ThreadHooks& hooks = {});
  /// Says goodbye to the others, so that a closed stream is no lost peer to them. Takes at most
  /// half a second.
  ~StreamLink() override;
  StreamLink(const StreamLink&) = delete;
  StreamLink& operator=(const StreamLink&) = delete;

  void send(const MessageHead& head, const void* data, std::atomic<bool>* is_sent) override;
  void released(const MessageHead& head) override;
  void poll(int64_t rank) override;
  void stop() override;
  const char* name() const override { return streams_->name(); }

 private:
  struct Remote {
    Remote(Fabric& fabric, const RemoteRanks& its_ranks)
        : ranks(its_ranks), inbox(fabric, outbox, its_ranks) {}
    const RemoteRanks ranks;
    StreamOutbox outbox;
    std::mutex reading;  ///< guards inbox
    StreamInbox inbox;
    std::atomic<bool> has_output{false};  ///< the link's thread writes when the stream takes more
    std::atomic<bool> is_closed{false};   ///< nothing more will come
    std::atomic<bool> is_unreachable{false};  ///< a message cannot be written
  };
  size_t peer_of(int64_t rank) const;
  StreamOutbox::Progress pump(size_t peer, int64_t budget, bool is_waker);
  void run(const ThreadHooks& hooks);
  void carry();
  void turn();
  void read(size_t peer);
  void take(size_t peer, int64_t budget);
  bool leave();
  void give_up(Remote& remote);
  void lose_if_closed(const Remote& remote);

  Fabric& fabric_;
  Clock& clock_;
  std::unique_ptr<Streams> streams_;
  std::vector<std::unique_ptr<Remote>> remotes_;
  std::vector<int32_t> peer_of_rank_;  // −1: a local rank
  std::vector<StreamState> states_;
  std::atomic<bool> is_ending_{false}, is_stopped_{false};
  std::thread thread_;
};

}  // namespace plait
