// Frames of the control channel and of the handshake before it: 40 bytes, little endian, and a
// body.
//
//   0  magic u32      4  protocol u16   6  operation u16   8  epoch u64   16  sequence u64
//  24  bytes u32     28  low half of XXH3-64 of bytes 0 … 27       32  XXH3-64 of 0 … 31 and the
//  body
//
// The first check keeps a damaged length from swallowing what follows. `sequence` counts the frames
// of one direction of a connection from 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plait {

enum class FrameKind : uint16_t {
  // Meeting.
  kChallenge = 1,  ///< random bytes of the side that accepted
  kHello,          ///< card, purpose and proof of the side that connects
  kWelcome,        ///< proof of the side that accepted
  kRefusal,        ///< an error
  kMissing,        ///< ranks that the store still waits for
  kCards,          ///< of all processes
  kReady,          ///< connected to all
  // Control.
  kHeartbeat,
  kAnnounce,    ///< an error, and who is out because of it
  kContribute,  ///< to an exchange
  kWithdraw,    ///< from an exchange
  kResult,      ///< of an exchange
  kLeave,
};
inline constexpr FrameKind kLastFrameKind = FrameKind::kLeave;

struct Frame {
  FrameKind kind = FrameKind::kHeartbeat;
  uint64_t epoch = 0;  ///< of the world; 0 while it is being made
  uint64_t sequence = 0;
  std::string body;
};

inline constexpr size_t kFrameHeadBytes = 40;
inline constexpr uint16_t kFrameProtocol = 1;

std::string encode_frame(const Frame& frame);

enum class FrameFault { kNone, kMagic, kProtocol, kHead, kTooLong, kKind, kChecksum, kSequence };
/// "magic", …
const char* frame_fault_name(FrameFault fault);

/// Frames out of a stream of bytes. After a fault it gives no more.
class FrameReader {
 public:
  /// A longer body is kTooLong.
  explicit FrameReader(uint32_t limit) : limit_(limit) {}
  void set_limit(uint32_t limit) { limit_ = limit; }
  void add(std::string_view bytes);
  /// Takes the next whole frame; false: none yet, or a fault.
  bool next(Frame* frame);
  FrameFault fault() const { return fault_; }

 private:
  FrameFault check_head(std::string_view bytes) const;

  uint32_t limit_;
  uint64_t sequence_ = 0;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not yet taken
  FrameFault fault_ = FrameFault::kNone;
};

}  // namespace plait
