// Addresses of host names, within a time limit. The system's look-up knows none, so it runs on a
// thread of its own, which is let go when it takes longer; the next call for the name joins it.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace plait {

/// One address of a host, with a port.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  /// "host:port", an IPv6 host in brackets, an IPv4 one plain even on an IPv6 socket.
  std::string text() const;
};

/// The addresses of a literal, none when `host` is a name.
std::vector<SocketAddress> literal_addresses(const std::string& host, const std::string& port);

/// Any thread.
class PosixResolver {
 public:
  /// Throws `address` when there is no such name, `deadline` when no answer came in time.
  std::vector<SocketAddress> resolve(const std::string& host, const std::string& port,
                                     int64_t timeout_ms);

 private:
  struct Query;
  std::shared_ptr<Query> start(const std::string& host, const std::string& port);

  std::mutex mutex_;  // guards queries_
  std::map<std::string, std::shared_ptr<Query>> queries_;
};

}  // namespace plait
