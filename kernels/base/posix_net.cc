#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/base/net.h"
#include "kernels/base/posix_resolver.h"

namespace plait {
namespace {

constexpr int kBacklog = 1024;
constexpr int64_t kListenResolveMs = 10000;

int64_t now_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

/// Owns a descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.value_) { other.value_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_ = -1;
};

/// Failures of the system's resources have words of their own; all others are the address's.
Error net_error(int error_number, const char* operation, const std::string& address) {
  const char* word = "address";
  if (error_number == EMFILE || error_number == ENFILE) word = "too_many_files";
  if (error_number == ENOMEM || error_number == ENOBUFS) word = "no_memory";
  if (error_number == EACCES || error_number == EPERM) word = "permission";
  char text[128] = "";
  const char* reason = strerror_r(error_number, text, sizeof text);
  return Error(word, std::string(operation) + " failed: " + reason)
      .with("address", address)
      .with("errno", error_number);
}

SocketAddress own_address(int descriptor) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes)) {
    address.bytes = 0;
  }
  return address;
}

SocketAddress peer_address(int descriptor) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes)) {
    address.bytes = 0;
  }
  return address;
}

/// A connection that came to be between a port and itself, which TCP allows.
bool is_self_connected(int descriptor) {
  const SocketAddress peer = peer_address(descriptor), own = own_address(descriptor);
  return peer.bytes != 0 && peer.bytes == own.bytes &&
         std::memcmp(&peer.storage, &own.storage, peer.bytes) == 0;
}

/// Errors that only say that there is no connection (any longer).
bool is_closed(int error_number) {
  switch (error_number) {
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
    case ECONNABORTED:
    case ENOTCONN:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case ENETRESET:
    case EADDRNOTAVAIL:
      return true;
    default:
      return false;
  }
}

class PosixSocket final : public Socket {
 public:
  PosixSocket(Descriptor descriptor, std::string peer)
      : descriptor_(std::move(descriptor)), peer_(std::move(peer)) {
    const int one = 1;
    ::setsockopt(descriptor_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  int descriptor() const { return descriptor_.get(); }

  int64_t send(const void* data, int64_t bytes) override {
    if (!is_checked_ && !check_self()) return kClosed;
    for (;;) {
      const ssize_t put =
          ::send(descriptor_.get(), data, static_cast<size_t>(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put >= 0) return put;
      if (errno == EINTR) continue;
      return failed("send");
    }
  }

  int64_t receive(void* data, int64_t bytes) override {
    if (bytes == 0) return 0;
    for (;;) {
      const ssize_t got = ::recv(descriptor_.get(), data, static_cast<size_t>(bytes), MSG_DONTWAIT);
      if (got > 0) return got;
      if (got == 0) return kClosed;
      if (errno == EINTR) continue;
      return failed("receive");
    }
  }

  void shutdown() override { ::shutdown(descriptor_.get(), SHUT_WR); }
  std::string peer() const override { return peer_; }

 private:
  int64_t failed(const char* operation) const {
    const int failure = errno;
    if (failure == EAGAIN || failure == EWOULDBLOCK) return 0;
    if (is_closed(failure)) return kClosed;
    const Error error = net_error(failure, operation, peer_);
    if (error.word() != "address") throw error;
    throw Error("io_error", std::string(operation) + " failed")
        .with("address", peer_)
        .with("errno", failure);
  }
  bool check_self() {
    const SocketAddress peer = peer_address(descriptor_.get());
    is_checked_ = peer.bytes != 0;
    return !is_checked_ || !is_self_connected(descriptor_.get());
  }

  Descriptor descriptor_;
  std::string peer_;
  bool is_checked_ = false;  // that it does not lead to itself
};

Descriptor make_socket(int family, const std::string& address) {
  Descriptor made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.get() < 0) throw net_error(errno, "socket", address);
  return made;
}

class PosixListener final : public Listener {
 public:
  /// Binds the first of the addresses that can be.
  PosixListener(const std::vector<SocketAddress>& choices, const std::string& address) {
    int failure = EADDRNOTAVAIL;
    for (const SocketAddress& choice : choices) {
      failure = try_listen(choice, address);
      if (failure == 0) return;
    }
    throw net_error(failure, "listen", address);
  }
  int descriptor() const { return descriptor_.get(); }

  std::unique_ptr<Socket> accept() override {
    for (;;) {
      SocketAddress from;
      from.bytes = sizeof from.storage;
      Descriptor got(::accept4(descriptor_.get(), reinterpret_cast<sockaddr*>(&from.storage),
                               &from.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (got.get() >= 0) return std::make_unique<PosixSocket>(std::move(got), from.text());
      if (errno == EINTR) continue;
      const Error error = net_error(errno, "accept", address());
      if (error.code() == Code::kResourceExhausted) throw error;
      return nullptr;  // nobody, or somebody who has gone again
    }
  }
  std::string address() const override { return own_address(descriptor_.get()).text(); }

 private:
  int try_listen(const SocketAddress& choice, const std::string& address) {
    const int one = 1, zero = 0;
    Descriptor made(::socket(choice.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (made.get() < 0) {
      const int failure = errno;
      const Error error = net_error(failure, "socket", address);
      if (error.word() == "too_many_files") throw error;
      return failure;  // no IPv6 here: another choice may do
    }
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (choice.family() == AF_INET6) {
      ::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    }
    if (::bind(made.get(), choice.get(), choice.bytes) != 0) return errno;
    if (::listen(made.get(), kBacklog) != 0) return errno;
    descriptor_ = std::move(made);
    return 0;
  }

  Descriptor descriptor_;
};

class PosixWaker final : public Waker {
 public:
  PosixWaker() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (descriptor_.get() < 0) throw net_error(errno, "eventfd", "");
  }
  int descriptor() const { return descriptor_.get(); }
  void wake() override {
    const uint64_t one = 1;
    // A full counter is as good as a woken one.
    while (::write(descriptor_.get(), &one, sizeof one) < 0 && errno == EINTR) continue;
  }
  void drain() {
    uint64_t count = 0;
    while (::read(descriptor_.get(), &count, sizeof count) < 0 && errno == EINTR) continue;
  }

 private:
  Descriptor descriptor_;
};

class PosixNet final : public Net {
 public:
  std::unique_ptr<Listener> listen(const std::string& address) override {
    const HostAndPort at = split_address(address);
    std::vector<SocketAddress> choices = literal_addresses(at.host, at.port);
    if (at.host == "localhost") choices = resolver_.resolve(at.host, at.port, kListenResolveMs);
    if (choices.empty()) {
      if (!at.host.empty()) resolver_.resolve(at.host, at.port, kListenResolveMs);
      for (const char* all : {"::", "0.0.0.0"}) {
        for (const SocketAddress& one : literal_addresses(all, at.port)) choices.push_back(one);
      }
    }
    return std::make_unique<PosixListener>(choices, address);
  }

  std::unique_ptr<Socket> connect(const std::string& address, int64_t timeout_ms) override {
    const int64_t until = now_ms() + timeout_ms;
    const HostAndPort at = split_address(address);
    int failure = EADDRNOTAVAIL;
    for (const SocketAddress& choice : resolver_.resolve(at.host, at.port, timeout_ms)) {
      Descriptor made = make_socket(choice.family(), address);
      failure = connect_until(made.get(), choice, until);
      if (failure == 0) return std::make_unique<PosixSocket>(std::move(made), choice.text());
      if (now_ms() >= until) break;
    }
    if (failure == EINPROGRESS) {
      throw Error("deadline", "no connection came in time").with("address", address);
    }
    throw net_error(failure, "connect", address);
  }

  std::unique_ptr<Socket> start_connect(const std::string& address) override {
    const HostAndPort at = split_address(address);
    const std::vector<SocketAddress> choices = literal_addresses(at.host, at.port);
    if (choices.empty()) throw Error("address", "no literal address").with("address", address);
    Descriptor made = make_socket(choices[0].family(), address);
    begin(made.get(), choices[0]);  // a failure, too, shows in the first send or receive
    return std::make_unique<PosixSocket>(std::move(made), choices[0].text());
  }

  std::unique_ptr<Waker> make_waker() override { return std::make_unique<PosixWaker>(); }

  void wait(std::vector<Interest>* interests, int64_t timeout_ms) override;
  std::string host_address() override;

  std::string host_name() override {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    return name;
  }
  int64_t process_id() override { return ::getpid(); }

 private:
  static int begin(int descriptor, const SocketAddress& to) {
    while (::connect(descriptor, to.get(), to.bytes) != 0) {
      if (errno != EINTR) return errno;
    }
    return 0;
  }
  static int connect_until(int descriptor, const SocketAddress& to, int64_t until);

  PosixResolver resolver_;
};

/// 0, EINPROGRESS when the time is over, or why not.
int PosixNet::connect_until(int descriptor, const SocketAddress& to, int64_t until) {
  const int started = begin(descriptor, to);
  if (started != 0 && started != EINPROGRESS && started != EALREADY) return started;
  for (;;) {
    const int64_t left = until - now_ms();
    pollfd entry{descriptor, POLLOUT, 0};
    const int ready = ::poll(&entry, 1, left < 0 ? 0 : static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return errno;
    if (ready > 0) break;
    if (left <= 0) return EINPROGRESS;
  }
  int failure = 0;
  socklen_t bytes = sizeof failure;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &bytes) != 0) return errno;
  return failure == 0 && is_self_connected(descriptor) ? ECONNREFUSED : failure;
}

void PosixNet::wait(std::vector<Interest>* interests, int64_t timeout_ms) {
  static thread_local std::vector<pollfd> entries;  // grows once for each thread
  entries.clear();
  for (const Interest& interest : *interests) {
    int descriptor = -1;
    if (interest.socket) descriptor = static_cast<PosixSocket*>(interest.socket)->descriptor();
    if (interest.listener) {
      descriptor = static_cast<PosixListener*>(interest.listener)->descriptor();
    }
    if (interest.waker) descriptor = static_cast<PosixWaker*>(interest.waker)->descriptor();
    const bool is_read = interest.socket == nullptr || interest.wants_read;
    const int events = (is_read ? POLLIN | POLLRDHUP : 0) | (interest.wants_write ? POLLOUT : 0);
    entries.push_back({descriptor, static_cast<int16_t>(events), 0});
  }
  const int64_t until = now_ms() + timeout_ms;
  int ready = 0;
  for (;;) {
    const int64_t left = until - now_ms();
    ready = ::poll(entries.data(), entries.size(), left < 0 ? 0 : static_cast<int>(left));
    if (ready >= 0) break;
    if (errno == ENOMEM) throw Error("no_memory", "poll failed").with("errno", errno);
    if (errno != EINTR && errno != EAGAIN) throw net_error(errno, "poll", "");
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    Interest& interest = (*interests)[i];
    const int events = ready == 0 ? 0 : entries[i].revents;
    interest.is_readable = (events & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)) != 0;
    interest.is_writable = (events & (POLLOUT | POLLHUP | POLLERR)) != 0;
    if (interest.waker && interest.is_readable) static_cast<PosixWaker*>(interest.waker)->drain();
  }
}

std::string without_port(const SocketAddress& address) {
  return split_address(address.text()).host;
}

/// The address from which packets to elsewhere leave, as the routes say; nothing is sent.
std::string PosixNet::host_address() {
  for (const char* elsewhere : {"192.0.2.1", "2001:db8::1"}) {  // reserved for documentation
    const std::vector<SocketAddress> to = literal_addresses(elsewhere, "9");
    if (to.empty()) continue;
    const Descriptor probe(::socket(to[0].family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (probe.get() < 0 || ::connect(probe.get(), to[0].get(), to[0].bytes) != 0) continue;
    const SocketAddress own = own_address(probe.get());
    if (own.bytes != 0) return without_port(own);
  }
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "127.0.0.1";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool is_up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_up || entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    SocketAddress address;
    address.bytes = sizeof(sockaddr_in);
    std::memcpy(&address.storage, entry->ifa_addr, address.bytes);
    return without_port(address);
  }
  return "127.0.0.1";
}

}  // namespace

Net& posix_net() {
  // Never destroyed: threads that a host left running still use it while the process ends.
  static PosixNet* const net = new PosixNet;
  return *net;
}

}  // namespace plait
