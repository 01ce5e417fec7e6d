#include "tests/bench/raw_round_trips.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "tests/bench/exchange_plan.h"
#include "tests/bench/measure.h"

namespace plait::bench {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = port;
  return address;
}

void must(bool is_good, const char* what) {
  if (!is_good) throw std::runtime_error(std::string(what) + " failed on loopback");
}

/// A connection between the two processes; the port travels through their pipe.
int connect_both(TwoProcesses& processes) {
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  must(made >= 0, "socket");
  if (processes.rank() == 0) {
    sockaddr_in address = loopback(0);
    socklen_t bytes = sizeof address;
    must(::bind(made, reinterpret_cast<sockaddr*>(&address), bytes) == 0, "bind");
    must(::listen(made, 1) == 0, "listen");
    must(::getsockname(made, reinterpret_cast<sockaddr*>(&address), &bytes) == 0, "getsockname");
    processes.exchange(std::to_string(address.sin_port));
    const int accepted = ::accept(made, nullptr, nullptr);
    must(accepted >= 0, "accept");
    ::close(made);
    return accepted;
  }
  const std::string port = processes.exchange("");
  const sockaddr_in address = loopback(static_cast<uint16_t>(std::stoul(port)));
  must(::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
       "connect");
  return made;
}

}  // namespace

std::vector<double> time_raw_tcp(TwoProcesses& processes) {
  const int connection = connect_both(processes), one = 1;
  ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  char message[kPingBytes] = {};
  const auto put = [&] {
    must(::send(connection, message, sizeof message, MSG_NOSIGNAL) == kPingBytes, "send");
  };
  const auto get = [&] {
    must(::recv(connection, message, sizeof message, MSG_WAITALL) == kPingBytes, "receive");
  };
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(kPings));
  for (int i = -kUntimedPings; i < kPings; ++i) {
    const double begin = now();
    if (processes.rank() == 0) put();
    get();
    if (processes.rank() == 1) put();
    if (i >= 0) seconds.push_back(now() - begin);
  }
  ::close(connection);
  return seconds;
}

}  // namespace plait::bench
