// A link between fabrics of one process, for tests: each link has a thread that carries the
// messages of its fabric's ranks into the mailboxes of the others.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/comm/fabric.h"

namespace plait::test {

/// Fabrics that together hold every rank of a world, joined by links.
class LoopbackWorld {
 public:
  /// One fabric for each entry of `local_ranks`.
  explicit LoopbackWorld(const std::vector<int64_t>& local_ranks, int64_t wait_limit_ms = 20'000);
  ~LoopbackWorld();

  std::vector<Fabric*> fabrics() const;
  Fabric& fabric_of(int64_t rank) const;
  Endpoint& endpoint(int64_t rank) const { return fabric_of(rank).endpoint(rank); }
  /// Heads of messages that were carried.
  int64_t carried() const;
  /// From now on messages are kept back until `let_go`.
  void hold();
  void let_go();

 private:
  class LoopbackLink;
  using Channel = std::tuple<int32_t, int32_t, uint32_t, uint32_t>;
  struct Parcel {
    MessageHead head;
    const void* data;
    std::atomic<bool>* is_sent;
  };
  struct Lane {
    std::deque<Parcel> parcels;
    std::thread thread;
  };
  void work(size_t process);
  bool take(size_t process, Parcel* parcel);
  void carry(size_t process, const Parcel& parcel);

  mutable std::mutex mutex_;  // guards all below but the fabrics
  std::condition_variable changed_;
  std::vector<Lane> lanes_;   // by sending process
  std::set<Channel> unread_;  // channels whose message is not released
  int64_t carried_ = 0;
  bool is_holding_ = false, is_stopping_ = false;
  std::vector<std::unique_ptr<Fabric>> fabrics_;
};

}  // namespace plait::test
