#include "engine/comm/endpoint.h"

#include <xmmintrin.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

namespace plait {
namespace {

constexpr int64_t kTickMs = 100;
constexpr int kSpins = 1000;
constexpr int64_t kLeastMemory = 256;

}  // namespace

Endpoint::Endpoint(Fabric& fabric, int64_t rank) : fabric_(fabric), rank_(rank) {}

Inbound& Endpoint::inbound(int64_t source, uint32_t communicator, uint32_t lane) {
  const std::lock_guard lock(channels_mutex_);
  return inbound_[{communicator, lane, source}];
}

Outbound& Endpoint::outbound(int64_t destination, uint32_t communicator, uint32_t lane) {
  Inbound* inbound = nullptr;
  if (fabric_.is_local(destination)) {
    inbound = &fabric_.endpoint(destination).inbound(rank_, communicator, lane);
  }
  const std::lock_guard lock(channels_mutex_);
  Outbound& outbound = outbound_[{communicator, lane, destination}];
  outbound.destination = destination;
  outbound.inbound = inbound;
  return outbound;
}

void* Endpoint::reserve(Buffer& memory, int64_t bytes) {
  if (memory.bytes() < bytes || memory.data() == nullptr) {
    const int64_t before = memory.bytes();
    const auto wanted = static_cast<uint64_t>(std::max(bytes, kLeastMemory));
    memory = Buffer();
    memory = Buffer(static_cast<int64_t>(std::bit_ceil(wanted)), MemoryCategory::kCommunication,
                    nullptr);
    mailbox_bytes_.fetch_add(memory.bytes() - before, std::memory_order_relaxed);
  }
  return memory.data();
}

void Endpoint::post(Outbound& to, MessageHead head, const void* data, const WaitPurpose& purpose) {
  wait_sent(to, purpose);
  send(to, head, data);
}

void Endpoint::post_copy(Outbound& to, MessageHead head, const void* data,
                         const WaitPurpose& purpose) {
  wait_sent(to, purpose);
  Buffer& memory = to.inbound != nullptr ? to.inbound->memory : to.memory;
  void* copy = reserve(memory, head.bytes);
  if (head.bytes > 0) std::memcpy(copy, data, static_cast<size_t>(head.bytes));
  send(to, head, copy);
}

void Endpoint::send(Outbound& to, MessageHead& head, const void* data) {
  head.source = static_cast<int32_t>(rank_);
  head.destination = static_cast<int32_t>(to.destination);
  head.epoch = fabric_.options_.epoch;
  if (to.inbound != nullptr) {
    fabric_.endpoint(to.destination).deliver(*to.inbound, head, data, false);
    return;
  }
  check(fabric_.link_ != nullptr, "no link reaches the other processes of the world");
  to.is_sent.store(false, std::memory_order_relaxed);
  fabric_.link_->send(head, data, &to.is_sent);
}

void Endpoint::deliver(Inbound& from, const MessageHead& head, const void* data,
                       bool is_from_link) {
  from.head = head;
  from.data = data;
  from.is_from_link = is_from_link;
  from.is_full.store(true);
  wake_if_awaited(&from.is_full);
}

void Endpoint::wait_sent(Outbound& to, const WaitPurpose& purpose) {
  const bool is_local = to.inbound != nullptr;
  wait({is_local ? to.inbound->is_full : to.is_sent, !is_local, to.destination, purpose});
}

void Endpoint::wait_full(Inbound& from, int64_t source, const WaitPurpose& purpose) {
  wait({from.is_full, true, source, purpose});
}

void Endpoint::release(Inbound& from) {
  fabric_.throw_if_aborted();
  const MessageHead head = from.head;
  const bool is_from_link = from.is_from_link;
  from.is_full.store(false);
  if (is_from_link) {
    fabric_.link_->released(head);
  } else {
    fabric_.endpoint(head.source).wake_if_awaited(&from.is_full);
  }
}

void Endpoint::wait(const Wait& wait) {
  fabric_.throw_if_aborted();
  if (wait.flag.load(std::memory_order_acquire) == wait.value) return;
  const int64_t begin_ns = now_ns();
  const int spins = fabric_.options_.may_spin ? kSpins : 0;
  bool is_over = false;
  for (int i = 0; i < spins && !is_over; ++i) {
    _mm_pause();
    is_over = wait.flag.load(std::memory_order_acquire) == wait.value;
  }
  if (!is_over) block(wait, begin_ns);
  *wait.purpose.wait_ns += now_ns() - begin_ns;
}

void Endpoint::block(const Wait& wait, int64_t begin_ns) {
  struct Awaiting {
    std::atomic<const std::atomic<bool>*>& awaited;
    ~Awaiting() { awaited.store(nullptr, std::memory_order_relaxed); }
  };
  std::unique_lock lock(wait_mutex_);
  const Awaiting awaiting{awaited_};
  // All four accesses, here and where the flag is set, are sequentially consistent: one of the two
  // threads sees what the other stored.
  awaited_.store(&wait.flag);
  for (;;) {
    fabric_.throw_if_aborted();
    if (wait.flag.load() == wait.value) return;
    const int64_t tick_ms = next_tick_ms(wait, begin_ns);
    if (changed_.wait_for(lock, std::chrono::milliseconds(tick_ms)) == std::cv_status::timeout) {
      wait.purpose.look();
    }
  }
}

int64_t Endpoint::next_tick_ms(const Wait& wait, int64_t begin_ns) {
  const int64_t limit_ms = fabric_.wait_limit_ms_.load(std::memory_order_relaxed);
  if (limit_ms < 0) return kTickMs;
  const int64_t waited_ms = (now_ns() - begin_ns) / 1'000'000;
  if (waited_ms < limit_ms) return std::min(kTickMs, limit_ms - waited_ms);
  throw Error("stalled", "a peer does not come")
      .with("rank", rank_)
      .with("peer", wait.peer)
      .with("operation", wait.purpose.operation)
      .with("communicator", wait.purpose.communicator)
      .with("sequence", wait.purpose.sequence)
      .with("waited_ms", waited_ms)
      .with("limit", limit_ms)
      .rank(static_cast<int32_t>(wait.peer))
      .subsystem("comm");
}

void Endpoint::wake_if_awaited(const std::atomic<bool>* flag) {
  if (awaited_.load() == flag) wake();
}

void Endpoint::wake() {
  // Whoever waits has either not looked yet or sleeps.
  { const std::lock_guard lock(wait_mutex_); }
  changed_.notify_one();
}

bool Endpoint::settle(int64_t deadline_ns) {
  const auto is_settled = [this] {
    const std::lock_guard lock(channels_mutex_);
    return std::all_of(outbound_.begin(), outbound_.end(), [](const auto& entry) {
      return entry.second.is_sent.load(std::memory_order_acquire);
    });
  };
  while (!is_settled()) {
    if (now_ns() >= deadline_ns) return false;
    std::unique_lock lock(wait_mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace plait
