// Rings in shared memory, and what happens when there is none.
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "engine/comm/shm_streams.h"
#include "tests/engine/comm/link_rig.h"

namespace plait::test {
namespace {

struct Pair {
  Pair() {
    auto shared = share_segments(posix_shared_memory(), 2);
    bytes = static_cast<char*>(shared[0][1]->data());
    a = std::make_unique<ShmStreams>(posix_shared_memory(), 0, std::move(shared[0]));
    b = std::make_unique<ShmStreams>(posix_shared_memory(), 1, std::move(shared[1]));
  }
  std::unique_ptr<ShmStreams> a, b;
  char* bytes = nullptr;  ///< of the segment of b, as a maps it
};

}  // namespace

TEST_CASE("a ring gives back what was written, across its end", "[links]") {
  Pair pair;
  std::mt19937 random(3);
  uint8_t next_in = 0, next_out = 0;
  std::vector<uint8_t> buffer(ShmStreams::ring_bytes(2) * 2);
  int64_t total = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto wanted = static_cast<int64_t>(random() % 200'000);
    for (int64_t j = 0; j < wanted; ++j) buffer[j] = static_cast<uint8_t>(next_in + j);
    const int64_t written = pair.a->write(0, buffer.data(), wanted);
    REQUIRE(written >= 0);
    REQUIRE(written <= wanted);
    next_in = static_cast<uint8_t>(next_in + written);
    total += written;
    const int64_t got = pair.b->read(0, buffer.data(), static_cast<int64_t>(random() % 250'000));
    bool is_same = true;
    for (int64_t j = 0; j < got; ++j) {
      is_same = is_same && buffer[j] == static_cast<uint8_t>(next_out + j);
    }
    REQUIRE(is_same);
    next_out = static_cast<uint8_t>(next_out + got);
  }
  CHECK(total > 10 * ShmStreams::ring_bytes(2));
  CHECK(pair.a->read(0, buffer.data(), 1) == 0);
}

TEST_CASE("a full ring takes no more until it is read", "[links]") {
  Pair pair;
  const int64_t capacity = ShmStreams::ring_bytes(2);
  std::vector<char> buffer(static_cast<size_t>(capacity) + 10, 'x');
  CHECK(pair.a->write(0, buffer.data(), capacity + 10) == capacity);
  CHECK(pair.a->write(0, buffer.data(), 1) == 0);
  CHECK(pair.b->read(0, buffer.data(), 3) == 3);
  CHECK(pair.a->write(0, buffer.data(), capacity) == 3);
}

TEST_CASE("bytes, room and a wake end a wait", "[links]") {
  Pair pair;
  std::vector<StreamState> states(1);
  const int64_t capacity = ShmStreams::ring_bytes(2);
  std::vector<char> buffer(static_cast<size_t>(capacity), 'x');
  pair.a->wait(&states, 1);
  CHECK(!states[0].is_readable);
  std::thread writer([&] { pair.a->write(0, "abc", 3); });
  for (int i = 0; i < 100 && !states[0].is_readable; ++i) pair.b->wait(&states, 100);
  writer.join();
  CHECK(states[0].is_readable);
  pair.b->read(0, buffer.data(), capacity);

  pair.a->write(0, buffer.data(), capacity);
  states[0].wants_write = true;
  std::thread reader([&] { pair.b->read(0, buffer.data(), capacity); });
  int64_t taken = 0;
  for (int i = 0; i < 100 && taken == 0; ++i) {
    pair.a->wait(&states, 100);
    taken = pair.a->write(0, buffer.data(), capacity);
  }
  reader.join();
  CHECK(taken > 0);

  states[0] = {};
  const int64_t begin_ns = posix_env().clock.now_ns();
  std::thread waker([&] { pair.a->wake(); });
  pair.a->wait(&states, 5000);
  pair.a->wait(&states, 0);
  waker.join();
  CHECK(posix_env().clock.now_ns() - begin_ns < 4'000'000'000);
}

TEST_CASE("overwritten counters of a ring are found", "[links]") {
  Pair pair;
  std::memset(pair.bytes + 4096, 0x7f, 64);
  char byte = 0;
  CHECK_THROWS_AS(pair.b->read(0, &byte, 1), Error);
}

TEST_CASE("shared memory that is too small is no_space with both sizes", "[links]") {
  const int64_t bytes = int64_t{1} << 50;
  try {
    posix_shared_memory().create(bytes);
    FAIL("so much memory cannot be there");
  } catch (const Error& error) {
    INFO(error.message());
    CHECK(error.word() == "no_space");
    CHECK(error.details().find("\"need\":" + std::to_string(bytes)) != std::string::npos);
    CHECK(error.details().find("\"have\":") != std::string::npos);
  }
}

TEST_CASE("segments are found by name until they are unlinked", "[links]") {
  SharedMemory& memory = posix_shared_memory();
  auto segment = memory.create(8192);
  CHECK_THROWS_AS(memory.open(segment->name(), 4096), Error);
  CHECK_THROWS_AS(memory.open("../" + segment->name(), 8192), Error);
  auto same = memory.open(segment->name(), 8192);
  static_cast<char*>(segment->data())[8191] = 'z';
  CHECK(static_cast<char*>(same->data())[8191] == 'z');
  segment->unlink();
  CHECK_THROWS_AS(memory.open(segment->name(), 8192), Error);
  const std::string name = memory.create(4096)->name();
  CHECK_THROWS_AS(memory.open(name, 4096), Error);
}

TEST_CASE("rings shrink as processes grow in number", "[links]") {
  for (int64_t processes = 2; processes <= 64; ++processes) {
    const int64_t ring = ShmStreams::ring_bytes(processes);
    CHECK((ring & (ring - 1)) == 0);
    CHECK(ShmStreams::segment_bytes(processes) >= (processes - 1) * ring);
    if (processes <= 20) CHECK(ShmStreams::segment_bytes(processes) * processes <= (56 << 20));
  }
}

}  // namespace plait::test
