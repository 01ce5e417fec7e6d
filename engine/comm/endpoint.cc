#include "engine/comm/endpoint.h"

#include <xmmintrin.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "kernels/base/wait_meter.h"

namespace plait {
namespace {

constexpr int64_t kEndpointTickMs = 100;
constexpr int kSpins = 300;
/// For messages of other processes, as long as it takes to wake two threads; one turn in so many
/// looks into the link.
constexpr int kRemoteSpins = 1000, kSpinsOfPoll = 16;
constexpr int64_t kLeastMemory = 256;
constexpr int64_t kMany = int64_t{1} << 40;  // more than there are channels

}  // namespace

/// Messages to come, or messages to be taken.
struct Endpoint::Awaited {
  std::span<Inbound* const> full;
  std::span<Outbound* const> sent;
  const WaitPurpose& purpose;

  size_t size() const { return full.size() + sent.size(); }
  bool is_ready(size_t i) const {
    return i < full.size() ? full[i]->is_full() : sent[i - full.size()]->is_taken();
  }
  int64_t peer(size_t i) const {
    return i < full.size() ? full[i]->source : sent[i - full.size()]->destination;
  }
  /// The first from `i` on that is not ready; size(): none.
  size_t first_missing(size_t i) const {
    while (i < size() && is_ready(i)) ++i;
    return i;
  }
  bool is_over() const { return first_missing(0) == size(); }
};

Endpoint::Endpoint(Fabric& fabric, int64_t rank) : fabric_(fabric), rank_(rank) {}

Inbound& Endpoint::inbound(int64_t source, uint32_t communicator, uint32_t lane) {
  const std::lock_guard lock(channels_mutex_);
  const auto [entry, is_new] = inbound_.try_emplace({communicator, lane, source});
  // Written once: its rank may wait there while the other end asks for it.
  if (is_new) entry->second.source = source;
  return entry->second;
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

void Endpoint::give_back(uint32_t first, uint32_t count) {
  const std::lock_guard lock(channels_mutex_);
  const auto free_memory = [&](auto& channels) {
    for (auto channel = channels.lower_bound({first, 0, 0});
         channel != channels.end() && channel->first.communicator - first < count; ++channel) {
      mailbox_bytes_.fetch_sub(channel->second.memory.bytes(), std::memory_order_relaxed);
      channel->second.memory = Buffer();
    }
  };
  free_memory(inbound_);
  free_memory(outbound_);
}

void Endpoint::post(Outbound& to, MessageHead head, const void* data, const WaitPurpose& purpose) {
  Outbound* const one = &to;
  wait_sent({&one, 1}, purpose);
  send(to, head, data);
}

void Endpoint::post_copy(Outbound& to, MessageHead head, const void* data,
                         const WaitPurpose& purpose) {
  Outbound* const one = &to;
  wait_sent({&one, 1}, purpose);
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
  if ((from.state.exchange(Inbound::kFull) & Inbound::kAwaited) != 0) count_down();
}

void Endpoint::wait_sent(std::span<Outbound* const> to, const WaitPurpose& purpose) {
  wait({{}, to, purpose});
}

void Endpoint::wait_full(std::span<Inbound* const> from, const WaitPurpose& purpose) {
  wait({from, {}, purpose});
}

void Endpoint::release(Inbound& from) {
  fabric_.throw_if_aborted();
  const MessageHead head = from.head;
  const bool is_from_link = from.is_from_link;
  const uint32_t before = from.state.exchange(0);
  if (is_from_link) {
    fabric_.link_->released(head);
  } else if ((before & Inbound::kAwaited) != 0) {
    fabric_.endpoint(head.source).count_down();
  }
}

void Endpoint::wait(const Awaited& awaited) {
  fabric_.throw_if_aborted();
  size_t missing = awaited.first_missing(0);
  if (missing == awaited.size()) return;
  const int64_t begin_ns = now_ns();
  if (fabric_.options_.may_spin) missing = spin(awaited, missing);
  if (missing < awaited.size()) block(awaited, begin_ns);
  awaited.purpose.wait_ns->fetch_add(now_ns() - begin_ns, std::memory_order_relaxed);
}

/// Looks for a moment whether the channels from `missing` on get ready; the first that is not.
size_t Endpoint::spin(const Awaited& awaited, size_t missing) {
  const auto is_remote = [&] {
    return fabric_.link_ != nullptr && !fabric_.is_local(awaited.peer(missing));
  };
  const int spins = is_remote() ? kRemoteSpins : kSpins;
  for (int i = 0; i < spins && missing < awaited.size(); ++i) {
    if (i % kSpinsOfPoll == 0 && is_remote()) fabric_.link_->poll(awaited.peer(missing));
    _mm_pause();
    missing = awaited.first_missing(missing);
  }
  return missing;
}

void Endpoint::block(const Awaited& awaited, int64_t begin_ns) {
  struct Waiting {
    std::atomic<bool>& flag;
    explicit Waiting(std::atomic<bool>& of) : flag(of) { flag.store(true); }
    ~Waiting() { flag.store(false); }
  } const waiting(is_waiting_);
  WaitMeter waited(begin_ns);
  std::unique_lock lock(wait_mutex_);
  missing_.store(0);
  for (;;) {
    fabric_.throw_if_aborted();
    // Zero too early: a channel marked by a wait that threw has changed meanwhile.
    if (missing_.load() <= 0) mark(awaited);
    if (awaited.is_over()) return;
    const int64_t tick_ms = next_tick_ms(awaited, waited.passed_ms(now_ns()));
    if (changed_.wait_for(lock, std::chrono::milliseconds(tick_ms)) == std::cv_status::timeout) {
      awaited.purpose.look();
    }
  }
}

/// Marks the channels that are not ready and makes missing_ their number. One that changes from now
/// on finds its mark and counts down; one that changed before is seen by who looks next. A link
/// marks nothing: it wakes the rank.
void Endpoint::mark(const Awaited& awaited) {
  missing_.store(kMany);
  int64_t count = 0;
  for (size_t i = 0; i < awaited.size(); ++i) {
    const bool is_receiving = i < awaited.full.size();
    Inbound* channel =
        is_receiving ? awaited.full[i] : awaited.sent[i - awaited.full.size()]->inbound;
    if (channel == nullptr) continue;
    const uint32_t unchanged = is_receiving ? 0 : Inbound::kFull;
    uint32_t state = unchanged;
    if (channel->state.compare_exchange_strong(state, unchanged | Inbound::kAwaited) ||
        state == (unchanged | Inbound::kAwaited)) {
      ++count;
    }
  }
  missing_.fetch_sub(kMany - count);
}

int64_t Endpoint::next_tick_ms(const Awaited& awaited, int64_t waited_ms) {
  const int64_t limit_ms = fabric_.wait_limit_ms_.load(std::memory_order_relaxed);
  if (limit_ms < 0) return kEndpointTickMs;
  if (waited_ms < limit_ms) return std::min(kEndpointTickMs, limit_ms - waited_ms);
  const size_t missing = awaited.first_missing(0);
  if (missing == awaited.size()) return 1;  // it has come just now
  throw Error("stalled", "a peer does not come")
      .with("rank", rank_)
      .with("peer", awaited.peer(missing))
      .with("operation", awaited.purpose.operation)
      .with("communicator", awaited.purpose.communicator)
      .with("sequence", awaited.purpose.sequence)
      .with("waited_ms", waited_ms)
      .with("limit", limit_ms)
      .rank(static_cast<int32_t>(awaited.peer(missing)))
      .subsystem("comm");
}

void Endpoint::count_down() {
  if (missing_.fetch_sub(1) == 1) wake();
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
