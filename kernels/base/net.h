// The network half of the Env seam: stream sockets that never block, and one wait for many of them.
// Nothing above it includes a system header for sockets. Sends raise no SIGPIPE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plait {

/// A connected stream (TCP without delay). One thread sends and one receives at a time, maybe at
/// once. Closed by the destructor.
class Socket {
 public:
  static constexpr int64_t kClosed = -1;
  virtual ~Socket() = default;
  /// Bytes taken, 0: none at present, kClosed: the peer closed, reset or was never reached. Other
  /// faults throw `io_error`.
  virtual int64_t send(const void* data, int64_t bytes) = 0;
  virtual int64_t receive(void* data, int64_t bytes) = 0;
  /// No more is sent; what was sent still arrives.
  virtual void shutdown() = 0;
  virtual std::string peer() const = 0;  ///< "host:port"
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::unique_ptr<Socket> accept() = 0;  ///< null: nobody waits
  virtual std::string address() const = 0;       ///< "host:port", the port that was bound
};

/// Ends a wait from another thread.
class Waker {
 public:
  virtual ~Waker() = default;
  virtual void wake() = 0;  ///< any thread
};

class Net {
 public:
  /// One of socket, listener and waker is set.
  struct Interest {
    Socket* socket = nullptr;
    Listener* listener = nullptr;
    Waker* waker = nullptr;
    bool wants_read = false, wants_write = false;
    bool is_readable = false, is_writable = false;  ///< set by wait; a closed peer is readable
  };
  virtual ~Net() = default;
  /// "host:port"; port 0 picks a free one. A literal address (or "localhost") is bound alone; ""
  /// and any other name, which must resolve, stand for all interfaces, because a machine often
  /// resolves its own name to an address that others do not reach. Throws `address` when it can not
  /// be bound or resolved, `too_many_files`.
  virtual std::unique_ptr<Listener> listen(const std::string& address) = 0;
  /// Throws `address` (unresolvable, refused) or `deadline`. A name that takes longer to resolve is
  /// looked up further, for the next call.
  virtual std::unique_ptr<Socket> connect(const std::string& address, int64_t timeout_ms) = 0;
  /// The same for a literal address, without waiting: the socket is writable once it is connected,
  /// and closed when it was refused.
  virtual std::unique_ptr<Socket> start_connect(const std::string& address) = 0;
  virtual std::unique_ptr<Waker> make_waker() = 0;
  /// Returns when one is ready or after `timeout_ms` ≥ 0.
  virtual void wait(std::vector<Interest>* interests, int64_t timeout_ms) = 0;
  /// An address of this machine that other machines may reach, without port.
  virtual std::string host_address() = 0;
  virtual std::string host_name() = 0;
  virtual int64_t process_id() = 0;
};

/// "host:port" apart; an IPv6 host may stand in brackets. Throws `address`.
struct HostAndPort {
  std::string host;
  std::string port;
};
HostAndPort split_address(const std::string& address);

/// The Net of the running system. Lives as long as the process.
Net& posix_net();

}  // namespace plait
