// Byte streams to the other processes of a world, one each way with each of them: what a transport
// has to give. Frames, flow control and threads are StreamLink's.
#pragma once

#include <cstdint>
#include <vector>

namespace plait {

/// What a wait is for and what it found, for one peer.
struct StreamState {
  bool wants_write = false;  ///< ends the wait when the peer's stream takes bytes again
  bool is_ignored = false;   ///< closed: nothing of it ends a wait
  bool is_readable = false;  ///< set by wait; a closed stream is readable
};

/// Peers are numbered as the streams were given. All but `wait` return at once.
class Streams {
 public:
  static constexpr int64_t kClosed = -1;
  virtual ~Streams() = default;
  /// Bytes taken, fewer than `bytes` when no more fit at present; kClosed: the peer is gone. One
  /// thread at a time for each peer, at the same time as `read`. Throws `io_error`.
  virtual int64_t write(int64_t peer, const void* data, int64_t bytes) = 0;
  /// Bytes got, 0: none at present, kClosed. One thread at a time for each peer: the one that
  /// waits, or where may_poll() another, even during `wait`.
  virtual int64_t read(int64_t peer, void* data, int64_t bytes) = 0;
  /// Returns when a stream is ready, after `wake`, or after `timeout_ms`. One thread.
  virtual void wait(std::vector<StreamState>* states, int64_t timeout_ms) = 0;
  virtual void wake() = 0;  ///< any thread
  /// The fabric was aborted: peers may be gone, and closing must not wait for them.
  virtual void abandon() {}
  virtual bool may_poll() const { return true; }
  /// "tcp", "shm", "mpi".
  virtual const char* name() const = 0;
};

}  // namespace plait
