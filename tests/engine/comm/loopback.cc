#include "tests/engine/comm/loopback.h"

#include <chrono>
#include <cstring>
#include <numeric>

#include "kernels/base/env.h"

namespace plait::test {

class LoopbackWorld::LoopbackLink : public Link {
 public:
  LoopbackLink(LoopbackWorld& world, size_t process) : world_(world), process_(process) {}

  void send(const MessageHead& head, const void* data, std::atomic<bool>* is_sent) override {
    const std::lock_guard lock(world_.mutex_);
    world_.lanes_[process_].parcels.push_back({head, data, is_sent});
    world_.changed_.notify_all();
  }
  void released(const MessageHead& head) override {
    const std::lock_guard lock(world_.mutex_);
    world_.unread_.erase({head.source, head.destination, head.communicator, head.lane});
    world_.changed_.notify_all();
  }
  const char* name() const override { return "loopback"; }

 private:
  LoopbackWorld& world_;
  size_t process_;
};

LoopbackWorld::LoopbackWorld(const std::vector<int64_t>& local_ranks, int64_t wait_limit_ms)
    : lanes_(local_ranks.size()) {
  const int64_t world = std::accumulate(local_ranks.begin(), local_ranks.end(), int64_t{0});
  int64_t first = 0;
  for (size_t process = 0; process < local_ranks.size(); ++process) {
    fabrics_.push_back(std::make_unique<Fabric>(
        Fabric::Options{world, first, local_ranks[process], wait_limit_ms, false, 3},
        posix_env().clock));
    fabrics_.back()->attach(std::make_unique<LoopbackLink>(*this, process));
    first += local_ranks[process];
  }
  for (size_t process = 0; process < lanes_.size(); ++process) {
    lanes_[process].thread = std::thread([this, process] { work(process); });
  }
}

LoopbackWorld::~LoopbackWorld() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  for (Lane& lane : lanes_) lane.thread.join();
}

std::vector<Fabric*> LoopbackWorld::fabrics() const {
  std::vector<Fabric*> all;
  for (const std::unique_ptr<Fabric>& fabric : fabrics_) all.push_back(fabric.get());
  return all;
}

Fabric& LoopbackWorld::fabric_of(int64_t rank) const {
  for (const std::unique_ptr<Fabric>& fabric : fabrics_) {
    if (fabric->is_local(rank)) return *fabric;
  }
  throw Error("invariant", "no fabric has this rank");
}

int64_t LoopbackWorld::carried() const {
  const std::lock_guard lock(mutex_);
  return carried_;
}

void LoopbackWorld::hold() {
  const std::lock_guard lock(mutex_);
  is_holding_ = true;
}

void LoopbackWorld::let_go() {
  const std::lock_guard lock(mutex_);
  is_holding_ = false;
  changed_.notify_all();
}

/// The oldest parcel whose channel is free. False: the world ends.
bool LoopbackWorld::take(size_t process, Parcel* parcel) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (is_stopping_) return false;
    std::deque<Parcel>& parcels = lanes_[process].parcels;
    const bool is_aborted = fabrics_[process]->is_aborted();
    for (auto it = parcels.begin(); it != parcels.end(); ++it) {
      const MessageHead& head = it->head;
      const Channel channel{head.source, head.destination, head.communicator, head.lane};
      if (!is_aborted && (is_holding_ || !unread_.insert(channel).second)) continue;
      *parcel = *it;
      parcels.erase(it);
      return true;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
}

void LoopbackWorld::carry(size_t process, const Parcel& parcel) {
  Fabric& to = fabric_of(parcel.head.destination);
  const bool is_dropped = fabrics_[process]->is_aborted();
  void* place = is_dropped ? nullptr : to.place(parcel.head);
  if (place != nullptr && parcel.head.bytes > 0) {
    std::memcpy(place, parcel.data, static_cast<size_t>(parcel.head.bytes));
  }
  parcel.is_sent->store(true);
  fabrics_[process]->wake(parcel.head.source);
  if (place == nullptr) return;
  to.deliver(parcel.head);
  const std::lock_guard lock(mutex_);
  ++carried_;
}

void LoopbackWorld::work(size_t process) {
  Parcel parcel;
  while (take(process, &parcel)) {
    try {
      carry(process, parcel);
    } catch (const Error& error) {
      fabrics_[process]->abort(error);
    }
  }
}

}  // namespace plait::test
