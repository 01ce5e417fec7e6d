#include "engine/comm/shm_streams.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/base/error.h"

namespace plait {

/// In shared memory; starts as zeros.
struct ShmStreams::Bell {
  alignas(64) std::atomic<uint32_t> rings;        ///< grows
  alignas(64) std::atomic<uint32_t> is_sleeping;  ///< the owner
};

/// In shared memory; starts as zeros. Counters of bytes since the beginning.
struct ShmStreams::RingHead {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  alignas(64) std::atomic<uint32_t> is_writer_waiting;
};

namespace {

constexpr int64_t kMostRing = 2 << 20, kLeastRing = 64 << 10;
constexpr int64_t kAllRings = 48 << 20;
constexpr int64_t kPage = 4096;
/// The other side sees bytes, and room, in steps of at most this.
constexpr uint64_t kStep = 64 << 10;

static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace

int64_t ShmStreams::ring_bytes(int64_t processes) {
  const int64_t rings = std::max<int64_t>(processes * (processes - 1), 1);
  const auto share = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kAllRings / rings)));
  return std::clamp(share, kLeastRing, kMostRing);
}

// A page for the bell, a page for each head, then the rings. Pages cost little and keep
// the processes out of each other's cache lines.
int64_t ShmStreams::segment_bytes(int64_t processes) {
  return kPage + (processes - 1) * (kPage + ring_bytes(processes));
}

ShmStreams::ShmStreams(SharedMemory& memory, int64_t own,
                       std::vector<std::unique_ptr<SharedSegment>> segments)
    : memory_(memory),
      own_(own),
      segments_(std::move(segments)),
      capacity_(static_cast<uint64_t>(ring_bytes(static_cast<int64_t>(segments_.size())))) {
  const auto processes = static_cast<int64_t>(segments_.size());
  for (const std::unique_ptr<SharedSegment>& segment : segments_) {
    check(segment->bytes() == segment_bytes(processes), "a segment has the size of all");
  }
  for (int64_t peer = 0; peer + 1 < processes; ++peer) {
    in_.push_back(ring(process_of(peer), own_));
    out_.push_back(ring(own_, process_of(peer)));
  }
}

ShmStreams::Ring ShmStreams::ring(int64_t from, int64_t to) {
  const int64_t slot = from < to ? from : from - 1;
  const auto others = static_cast<int64_t>(segments_.size()) - 1;
  char* base = static_cast<char*>(segments_[static_cast<size_t>(to)]->data());
  return {reinterpret_cast<RingHead*>(base + kPage * (1 + slot)),
          base + kPage * (1 + others) + slot * static_cast<int64_t>(capacity_)};
}

ShmStreams::Bell& ShmStreams::bell(int64_t process) {
  return *static_cast<Bell*>(segments_[static_cast<size_t>(process)]->data());
}

// All accesses to what one side stores before it looks at the other side's word are sequentially
// consistent: of two that race, one sees the other.
void ShmStreams::ring_bell(int64_t process) {
  Bell& bell = this->bell(process);
  bell.rings.fetch_add(1);
  if (bell.is_sleeping.load() != 0) memory_.wake(&bell.rings);
}

uint64_t ShmStreams::used(const RingHead& head, int64_t peer) const {
  uint64_t read = head.read.load(), written = head.written.load();
  // Another thread may have read in between.
  for (uint64_t again = head.read.load(); again != read; again = head.read.load()) {
    read = again;
    written = head.written.load();
  }
  if (written - read <= capacity_) return written - read;
  throw Error("corrupt", "shared memory between processes was overwritten")
      .with("process", process_of(peer))
      .with("written", written)
      .with("read", read)
      .subsystem("comm");
}

int64_t ShmStreams::write(int64_t peer, const void* data, int64_t bytes) {
  const Ring& ring = out_[static_cast<size_t>(peer)];
  const auto wanted = static_cast<uint64_t>(bytes);
  uint64_t done = 0;
  while (done < wanted) {
    const uint64_t room = capacity_ - used(*ring.head, peer);
    const uint64_t written = ring.head->written.load(std::memory_order_relaxed);
    const uint64_t at = written & (capacity_ - 1);
    const uint64_t step = std::min({room, wanted - done, capacity_ - at, kStep});
    if (step == 0) break;
    std::memcpy(ring.data + at, static_cast<const char*>(data) + done, step);
    ring.head->written.store(written + step);
    done += step;
    ring_bell(process_of(peer));
  }
  return static_cast<int64_t>(done);
}

int64_t ShmStreams::read(int64_t peer, void* data, int64_t bytes) {
  const Ring& ring = in_[static_cast<size_t>(peer)];
  const auto wanted = static_cast<uint64_t>(bytes);
  uint64_t done = 0;
  while (done < wanted) {
    const uint64_t there = used(*ring.head, peer);
    const uint64_t read = ring.head->read.load(std::memory_order_relaxed);
    const uint64_t at = read & (capacity_ - 1);
    const uint64_t step = std::min({there, wanted - done, capacity_ - at, kStep});
    if (step == 0) break;
    std::memcpy(static_cast<char*>(data) + done, ring.data + at, step);
    ring.head->read.store(read + step);
    done += step;
    // A writer is woken when there is room for more than a few bytes.
    if (ring.head->is_writer_waiting.load() != 0 && there - step <= capacity_ / 2) {
      ring.head->is_writer_waiting.store(0);
      ring_bell(process_of(peer));
    }
  }
  return static_cast<int64_t>(done);
}

/// Fills in what is ready; true when something is.
bool ShmStreams::look(std::vector<StreamState>* states) {
  bool is_ready = false;
  for (size_t i = 0; i < states->size(); ++i) {
    StreamState& state = (*states)[i];
    const auto peer = static_cast<int64_t>(i);
    state.is_readable = !state.is_ignored && used(*in_[i].head, peer) > 0;
    is_ready = is_ready || state.is_readable;
    if (state.is_ignored || !state.wants_write) continue;
    out_[i].head->is_writer_waiting.store(1);
    is_ready = is_ready || used(*out_[i].head, peer) <= capacity_ / 2;
  }
  return is_ready;
}

void ShmStreams::wait(std::vector<StreamState>* states, int64_t timeout_ms) {
  Bell& own = bell(own_);
  const uint32_t rings = own.rings.load();
  const bool is_ready = look(states);
  if (is_ready || rings != seen_rings_) {
    seen_rings_ = rings;
    return;
  }
  own.is_sleeping.store(1);
  memory_.wait(&own.rings, rings, timeout_ms);
  own.is_sleeping.store(0);
  seen_rings_ = own.rings.load();
  look(states);
}

}  // namespace plait
