// What links between processes write in their byte streams: frames of one size, a message's payload
// right behind its frame. Both ends are the same build on little-endian machines.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "engine/comm/fabric.h"

namespace plait {

/// Four letters that no text begins with, so that a stranger's bytes are recognised.
enum class StreamFrameKind : uint32_t {
  kMessage = 0x4d74'6c50,  ///< head.bytes of payload follow
  kRelease = 0x5274'6c50,  ///< the message with this head is released at its destination
  kLeave = 0x4c74'6c50,    ///< the sender closes on purpose; nothing follows
};

struct StreamFrame {
  StreamFrameKind kind = StreamFrameKind::kMessage;
  uint32_t reserved = 0;
  MessageHead head;
};
static_assert(std::is_trivially_copyable_v<StreamFrame> && sizeof(StreamFrame) == 72);
static_assert(std::endian::native == std::endian::little);

/// One direction between two ranks in one conversation.
struct ChannelKey {
  uint32_t communicator = 0, lane = 0;
  int32_t source = 0, destination = 0;
  auto operator<=>(const ChannelKey&) const = default;
};

inline ChannelKey channel_of(const MessageHead& head) {
  return {head.communicator, head.lane, head.source, head.destination};
}

/// Ranks of one other process.
struct RemoteRanks {
  int64_t first_rank = 0, local_ranks = 1;
  bool contains(int64_t rank) const {
    return rank >= first_rank && rank < first_rank + local_ranks;
  }
};

}  // namespace plait
