// Byte streams through memory that the processes of one machine share.
//
// Each process owns one segment: a doorbell, on which its link's thread sleeps, and a ring of bytes
// for each other process that writes to it. A ring has one writer and one reader; neither takes a
// lock. Whoever makes another process ready rings its bell.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/comm/streams.h"
#include "kernels/base/shared_memory.h"

namespace plait {

class ShmStreams final : public Streams {
 public:
  /// Size of a ring where so many processes take part: large rings for few, all together little
  /// memory for many.
  static int64_t ring_bytes(int64_t processes);
  /// Size of the segment of each process.
  static int64_t segment_bytes(int64_t processes);

  /// `segments` of all processes in the same order everywhere, the own one at `own`, each of
  /// segment_bytes(). The peers are the others in that order. `memory` outlives this.
  ShmStreams(SharedMemory& memory, int64_t own,
             std::vector<std::unique_ptr<SharedSegment>> segments);

  int64_t write(int64_t peer, const void* data, int64_t bytes) override;
  int64_t read(int64_t peer, void* data, int64_t bytes) override;
  void wait(std::vector<StreamState>* states, int64_t timeout_ms) override;
  void wake() override { ring_bell(own_); }
  const char* name() const override { return "shm"; }

 private:
  struct Bell;
  struct RingHead;
  struct Ring {
    RingHead* head = nullptr;
    char* data = nullptr;
  };
  int64_t process_of(int64_t peer) const { return peer < own_ ? peer : peer + 1; }
  Ring ring(int64_t from, int64_t to);
  Bell& bell(int64_t process);
  void ring_bell(int64_t process);
  uint64_t used(const RingHead& head, int64_t peer) const;
  bool look(std::vector<StreamState>* states);

  SharedMemory& memory_;
  const int64_t own_;
  std::vector<std::unique_ptr<SharedSegment>> segments_;
  const uint64_t capacity_;     // of a ring, a power of two
  std::vector<Ring> in_, out_;  // by peer
  uint32_t seen_rings_ = 0;     // of the own bell
};

}  // namespace plait
