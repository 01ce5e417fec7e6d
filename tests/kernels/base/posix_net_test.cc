// Sockets of the running system.
#include <csignal>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "kernels/base/env.h"
#include "kernels/base/error.h"
#include "kernels/base/net.h"

namespace plait {
namespace {

std::string word_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.word();
  }
  return "";
}

void await(Net::Interest interest, int64_t timeout_ms = 2000) {
  std::vector<Net::Interest> one{interest};
  posix_net().wait(&one, timeout_ms);
}

struct Pair {
  std::unique_ptr<Socket> from, to;
};

Pair connected_pair(const std::string& address) {
  const auto listener = posix_net().listen(address);
  Pair pair;
  pair.from = posix_net().connect(listener->address(), 2000);
  await({.listener = listener.get()});
  pair.to = listener->accept();
  REQUIRE(pair.to != nullptr);
  CHECK(listener->accept() == nullptr);
  return pair;
}

}  // namespace

TEST_CASE("addresses come apart", "[net]") {
  CHECK(split_address("host:80").host == "host");
  CHECK(split_address("host:80").port == "80");
  CHECK(split_address("[::1]:80").host == "::1");
  CHECK(split_address(":0").host == "");
  for (const char* bad : {"host", "host:", "host:x", "host:65536", "host:-1", "host:123456", ""}) {
    CHECK(word_of([&] { split_address(bad); }) == "address");
  }
}

TEST_CASE("bytes arrive, and an end is seen", "[net]") {
  for (const char* address : {"127.0.0.1:0", "localhost:0", ":0"}) {
    Pair pair = connected_pair(address);
    char buffer[16] = "";
    CHECK(pair.to->receive(buffer, sizeof buffer) == 0);
    CHECK(pair.from->send("hello", 5) == 5);
    await({.socket = pair.to.get(), .wants_read = true});
    CHECK(pair.to->receive(buffer, sizeof buffer) == 5);
    CHECK(std::string(buffer) == "hello");
    pair.from->shutdown();
    await({.socket = pair.to.get(), .wants_read = true});
    CHECK(pair.to->receive(buffer, sizeof buffer) == Socket::kClosed);
    CHECK(pair.to->send("back", 4) == 4);
    await({.socket = pair.from.get(), .wants_read = true});
    CHECK(pair.from->receive(buffer, sizeof buffer) == 4);
    CHECK(pair.from->peer().find(':') != std::string::npos);
  }
}

TEST_CASE("a full connection takes no more, and a broken one raises no signal", "[net]") {
  Pair pair = connected_pair("127.0.0.1:0");
  const std::string bytes(1 << 20, 'x');
  int64_t sent = 0, put = 1;
  while (put > 0) sent += put = pair.from->send(bytes.data(), static_cast<int64_t>(bytes.size()));
  CHECK(put == 0);
  CHECK(sent > 0);
  std::vector<Net::Interest> one{{.socket = pair.from.get(), .wants_write = true}};
  posix_net().wait(&one, 0);
  CHECK_FALSE(one[0].is_writable);
  struct sigaction before {};
  sigaction(SIGPIPE, nullptr, &before);
  CHECK(before.sa_handler == SIG_DFL);
  pair.to.reset();
  for (int i = 0; i < 100 && put != Socket::kClosed; ++i) {
    put = pair.from->send(bytes.data(), 1000);
    if (put == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(put == Socket::kClosed);
  CHECK(pair.from->send(bytes.data(), 1) == Socket::kClosed);
}

TEST_CASE("what can not be listened at or connected to is an address error", "[net]") {
  Net& net = posix_net();
  const auto taken = net.listen("127.0.0.1:0");
  CHECK(word_of([&] { net.listen(taken->address()); }) == "address");
  CHECK(word_of([&] { net.listen("203.0.113.7:0"); }) == "address");  // none of this machine's
  CHECK(word_of([&] { net.listen("no-such-host.invalid:0"); }) == "address");
  CHECK(word_of([&] { net.start_connect("no-such-host.invalid:1"); }) == "address");
  std::string free;
  {
    const auto listener = net.listen("127.0.0.1:0");
    free = listener->address();
  }
  CHECK(word_of([&] { net.connect(free, 2000); }) == "address");
  const auto refused = net.start_connect(free);
  await({.socket = refused.get(), .wants_write = true});
  char byte = 0;
  CHECK(refused->receive(&byte, 1) == Socket::kClosed);
  try {
    net.listen(taken->address());
  } catch (const Error& error) {
    CHECK(error.message().find("address=" + taken->address() + " errno=98") != std::string::npos);
  }
}

TEST_CASE("a connection that was started is writable once it stands", "[net]") {
  const auto listener = posix_net().listen("127.0.0.1:0");
  const auto socket = posix_net().start_connect(listener->address());
  await({.socket = socket.get(), .wants_write = true});
  CHECK(socket->send("x", 1) == 1);
  await({.listener = listener.get()});
  const auto accepted = listener->accept();
  REQUIRE(accepted != nullptr);
  await({.socket = accepted.get(), .wants_read = true});
  char byte = 0;
  CHECK(accepted->receive(&byte, 1) == 1);
}

TEST_CASE("a waker ends a wait from another thread, a deadline does too", "[net]") {
  const auto waker = posix_net().make_waker();
  Clock& clock = posix_env().clock;
  std::vector<Net::Interest> one{{.waker = waker.get()}};
  int64_t begin = clock.now_ns();
  posix_net().wait(&one, 50);
  CHECK_FALSE(one[0].is_readable);
  CHECK(clock.now_ns() - begin >= 49'000'000);
  begin = clock.now_ns();
  std::thread other([&] { waker->wake(); });
  posix_net().wait(&one, 10'000);
  other.join();
  CHECK(one[0].is_readable);
  CHECK(clock.now_ns() - begin < 5'000'000'000);
  posix_net().wait(&one, 0);
  CHECK_FALSE(one[0].is_readable);  // a wake counts once
}

TEST_CASE("this machine has a name and an address", "[net]") {
  CHECK_FALSE(posix_net().host_name().empty());
  CHECK(posix_net().process_id() > 1);
  const std::string host = posix_net().host_address();
  CHECK_FALSE(host.empty());
  const bool is_ipv6 = host.find(':') != std::string::npos;
  const auto listener = posix_net().listen((is_ipv6 ? "[" + host + "]" : host) + ":0");
  CHECK(posix_net().connect(listener->address(), 2000) != nullptr);
}

}  // namespace plait
