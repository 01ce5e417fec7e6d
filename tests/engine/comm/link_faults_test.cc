// Peers that leave, die, talk nonsense or do not read.
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "engine/comm/stream_frame.h"
#include "engine/comm/stream_link.h"
#include "engine/comm/tcp_streams.h"
#include "tests/engine/comm/link_rig.h"

namespace plait::test {
namespace {

/// Ranks 0 and 1 as this process; the process of rank 2 is the far end of a connection.
struct HalfWorld {
  HalfWorld() {
    std::unique_ptr<Socket> near;
    std::tie(near, far) = connect_pair(posix_net());
    std::vector<std::unique_ptr<Socket>> sockets;
    sockets.push_back(std::move(near));
    fabric =
        std::make_unique<Fabric>(Fabric::Options{3, 0, 2, 20'000, false, 0}, posix_env().clock);
    fabric->attach(std::make_unique<StreamLink>(
        *fabric, posix_env().clock, std::vector<RemoteRanks>{{2, 1}},
        std::make_unique<TcpStreams>(posix_net(), std::move(sockets))));
  }
  /// Sends all of it.
  void say(const void* data, int64_t bytes) {
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const int64_t sent = far->send(from, bytes);
      REQUIRE(sent >= 0);
      from += sent;
      bytes -= sent;
    }
  }
  /// Until the fabric is aborted, at most 5 s.
  std::optional<Error> abort_error() const {
    for (int i = 0; i < 5000 && !fabric->is_aborted(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return fabric->abort_error();
  }
  std::unique_ptr<Socket> far;
  std::unique_ptr<Fabric> fabric;
};

MessageHead head_to(int32_t destination, int64_t bytes) {
  MessageHead head;
  head.source = 2;
  head.destination = destination;
  head.bytes = bytes;
  return head;
}

}  // namespace

TEST_CASE("R5: a connection that closes is peer_lost with the rank, at once", "[links]") {
  HalfWorld world;
  const Outcomes outcomes = [&] {
    std::thread closer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      world.far.reset();
    });
    const int64_t begin_ns = posix_env().clock.now_ns();
    const Outcomes ended = run_ranks({world.fabric.get()}, [&](int64_t rank) {
      Communicator group(world.fabric->endpoint(rank), "world", 1, first_ranks(3), nullptr);
      group.barrier();
    });
    CHECK(posix_env().clock.now_ns() - begin_ns < 1'000'000'000);
    closer.join();
    return ended;
  }();
  for (int rank : {0, 1}) {
    REQUIRE(outcomes[rank]);
    CHECK(outcomes[rank]->word() == "peer_lost");
    CHECK(outcomes[rank]->code() == Code::kPeerLost);
    CHECK(outcomes[rank]->rank() == 2);
  }
}

TEST_CASE("a connection that closes in the middle of a message is peer_lost", "[links]") {
  HalfWorld world;
  const StreamFrame frame{StreamFrameKind::kMessage, 0, head_to(1, 1 << 20)};
  world.say(&frame, sizeof frame);
  world.say(&frame, sizeof frame);
  world.far.reset();
  REQUIRE(world.abort_error());
  CHECK(world.abort_error()->word() == "peer_lost");
}

TEST_CASE("a process that leaves is not lost, until somebody needs it", "[links]") {
  HalfWorld world;
  const StreamFrame frame{StreamFrameKind::kLeave, 0, {}};
  world.say(&frame, sizeof frame);
  world.far.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(!world.fabric->is_aborted());
  const Outcomes outcomes = run_ranks({world.fabric.get()}, [&](int64_t rank) {
    Communicator group(world.fabric->endpoint(rank), "world", 1, first_ranks(3), nullptr);
    float value = 1;
    if (rank == 0) group.send(2, Lane::kForward, {0, 0}, {&value, DType::kFloat32, {1}});
    if (rank == 0) group.wait_sent(2, Lane::kForward);
    if (rank == 0) group.receive(2, Lane::kForward, {0, 0}, {&value, DType::kFloat32, {1}});
  });
  REQUIRE(outcomes[0]);
  CHECK(outcomes[0]->word() == "peer_lost");
}

TEST_CASE("what is no frame of the peer is corrupt", "[links]") {
  StreamFrame frame{StreamFrameKind::kMessage, 0, head_to(0, 8)};
  SECTION("text") { frame.kind = static_cast<StreamFrameKind>(0x20544547); }
  SECTION("another source") { frame.head.source = 1; }
  SECTION("no rank of this process") { frame.head.destination = 2; }
  SECTION("negative size") { frame.head.bytes = -1; }
  SECTION("a lane that is none") { frame.head.lane = 99; }
  SECTION("a release of nothing") {
    frame.kind = StreamFrameKind::kRelease;
    frame.head.source = 0;
    frame.head.destination = 2;
  }
  HalfWorld world;
  world.say(&frame, sizeof frame);
  REQUIRE(world.abort_error());
  INFO(world.abort_error()->message());
  CHECK(world.abort_error()->word() == "corrupt");
}

TEST_CASE("a second message before the first was released is corrupt", "[links]") {
  HalfWorld world;
  const StreamFrame frame{StreamFrameKind::kMessage, 0, head_to(0, 0)};
  world.say(&frame, sizeof frame);
  world.say(&frame, sizeof frame);
  REQUIRE(world.abort_error());
  CHECK(world.abort_error()->word() == "corrupt");
}

TEST_CASE("messages of another epoch are dropped with their payload", "[links]") {
  HalfWorld world;
  StreamFrame frame{StreamFrameKind::kMessage, 0, head_to(0, 100'000)};
  frame.head.epoch = 7;
  const std::vector<char> payload(100'000, 'p');
  for (int i = 0; i < 3; ++i) {
    world.say(&frame, sizeof frame);
    world.say(payload.data(), 100'000);
  }
  frame.kind = StreamFrameKind::kLeave;
  world.say(&frame, sizeof frame);
  world.far.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(!world.fabric->is_aborted());
}

TEST_CASE("after an abort nothing of a message that nobody reads is touched", "[links]") {
  HalfWorld world;
  std::vector<char> data(64 << 20, 'd');
  const Outcomes outcomes = run_ranks({world.fabric.get()}, [&](int64_t rank) {
    Communicator group(world.fabric->endpoint(rank), "world", 1, first_ranks(3), nullptr);
    if (rank == 0) {
      group.send(2, Lane::kForward, {0, 0},
                 {data.data(), DType::kUInt8, {static_cast<int64_t>(data.size())}});
      world.fabric->abort(Error("aborted", "by the test"));
      group.wait_sent(2, Lane::kForward);
    }
  });
  REQUIRE(outcomes[0]);
  CHECK(outcomes[0]->word() == "aborted");
  CHECK(world.fabric->settle(1000));
  data = {};
  const int64_t begin_ns = posix_env().clock.now_ns();
  world.fabric.reset();
  CHECK(posix_env().clock.now_ns() - begin_ns < 2'000'000'000);
}

TEST_CASE("H3: one fabric may go before the other", "[links]") {
  const std::string transport = GENERATE("tcp", "shm");
  Fabrics fabrics = join_processes({1, 1, 1}, transport);
  run_processes(fabrics, [](Communicator& group) { group.barrier(); });
  fabrics[1].reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(!fabrics[0]->is_aborted());
  CHECK(!fabrics[2]->is_aborted());
  fabrics[0].reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(!fabrics[2]->is_aborted());
}

}  // namespace plait::test
