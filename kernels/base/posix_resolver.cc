#include "kernels/base/posix_resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>

#include "kernels/base/error.h"

namespace plait {

struct PosixResolver::Query {
  std::string host, port;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  int failure = 0;       // EAI_…
  int system_error = 0;  // of EAI_SYSTEM
  std::vector<SocketAddress> addresses;

  /// The thread's function; `argument` is a std::shared_ptr<Query>*, its own.
  static void* run(void* argument);
};

namespace {

int look_up(const std::string& host, const std::string& port, int flags,
            std::vector<SocketAddress>* addresses) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  if (failure != 0) return failure;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    if (entry->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.bytes = entry->ai_addrlen;
    addresses->push_back(address);
  }
  return 0;
}

Error unresolved(const std::string& host, int failure, int system_error) {
  return Error("address", "the host name has no address")
      .with("address", host)
      .with("errno", failure == EAI_SYSTEM ? system_error : failure)
      .with("reason", ::gai_strerror(failure));
}

}  // namespace

std::string SocketAddress::text() const {
  char host[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(ntohs(in.sin_port));
  }
  if (family() != AF_INET6) return "?:0";
  const auto& in = reinterpret_cast<const sockaddr_in6&>(storage);
  const std::string port = ":" + std::to_string(ntohs(in.sin6_port));
  if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
    ::inet_ntop(AF_INET, reinterpret_cast<const char*>(&in.sin6_addr) + 12, host, sizeof host);
    return host + port;
  }
  ::inet_ntop(AF_INET6, &in.sin6_addr, host, sizeof host);
  return "[" + std::string(host) + "]" + port;
}

std::vector<SocketAddress> literal_addresses(const std::string& host, const std::string& port) {
  std::vector<SocketAddress> addresses;
  look_up(host, port, AI_NUMERICHOST, &addresses);
  return addresses;
}

void* PosixResolver::Query::run(void* argument) {
  const std::unique_ptr<std::shared_ptr<Query>> owner(
      static_cast<std::shared_ptr<Query>*>(argument));
  Query& query = **owner;
  std::vector<SocketAddress> addresses;
  int failure = 0;
  try {
    failure = look_up(query.host, query.port, AI_ADDRCONFIG, &addresses);
  } catch (const std::exception&) {
    failure = EAI_MEMORY;
  }
  const int system_error = errno;
  const std::lock_guard lock(query.mutex);
  query.addresses = std::move(addresses);
  query.failure = failure;
  query.system_error = system_error;
  query.is_done = true;
  query.changed.notify_all();
  return nullptr;
}

std::shared_ptr<PosixResolver::Query> PosixResolver::start(const std::string& host,
                                                           const std::string& port) {
  const std::string key = host + ":" + port;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Query>& place = queries_[key];
  if (place != nullptr) return place;
  auto query = std::make_shared<Query>();
  query->host = host;
  query->port = port;
  auto argument = std::make_unique<std::shared_ptr<Query>>(query);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int failure = pthread_create(&thread, nullptr, &Query::run, argument.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure != 0) {
    queries_.erase(key);
    throw Error("no_memory", "a thread could not be started").with("errno", failure);
  }
  argument.release();
  pthread_detach(thread);
  place = query;
  return query;
}

std::vector<SocketAddress> PosixResolver::resolve(const std::string& host, const std::string& port,
                                                  int64_t timeout_ms) {
  std::vector<SocketAddress> literal = literal_addresses(host, port);
  if (!literal.empty()) return literal;
  const std::shared_ptr<Query> query = start(host, port);
  std::unique_lock lock(query->mutex);
  if (!query->changed.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                               [&] { return query->is_done; })) {
    throw Error("deadline", "the host name was not resolved in time").with("address", host);
  }
  {
    const std::lock_guard queries_lock(mutex_);
    const auto found = queries_.find(host + ":" + port);
    if (found != queries_.end() && found->second == query) queries_.erase(found);
  }
  if (query->failure != 0) throw unresolved(host, query->failure, query->system_error);
  return query->addresses;
}

}  // namespace plait
