// Ranks behind links: the same bits as between threads, early messages, credit, errors.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/engine/comm/loopback.h"
#include "tests/engine/comm/ordered_values.h"

namespace plait::test {
namespace {

constexpr int64_t kLinkCounts[] = {0, 1, 7, 1000, 30001};

/// Every collective for some sizes; results one after another.
template <class T>
std::vector<T> run_collectives(Communicator& group) {
  const int64_t world = group.size();
  std::vector<T> results;
  const auto keep = [&](const std::vector<T>& values) {
    results.insert(results.end(), values.begin(), values.end());
  };
  for (int64_t count : kLinkCounts) {
    std::vector<T> buffer = part_of<T>(group.index(), count);
    group.all_reduce(view_of(buffer));
    keep(buffer);
    std::vector<T> whole = part_of<T>(group.index(), count * world);
    group.reduce_scatter(view_of(whole), view_of(buffer));
    keep(buffer);
    group.start_all_gather(view_of(buffer), view_of(whole));
    group.finish();
    keep(whole);
    buffer = part_of<T>(group.index(), count);
    group.broadcast(view_of(buffer), count % world);
    keep(buffer);
    group.barrier();
    const int64_t next = (group.index() + 1) % world;
    const int64_t last = (group.index() + world - 1) % world;
    std::vector<T> received(buffer.size());
    group.send(next, Lane::kForward, {count, 1}, view_of(buffer));
    group.receive(last, Lane::kForward, {count, 1}, view_of(received));
    group.wait_sent(next, Lane::kForward);
    keep(received);
  }
  return results;
}

template <class T>
std::vector<std::vector<T>> run_on(const std::vector<Fabric*>& fabrics,
                                   const std::function<Endpoint&(int64_t)>& endpoint) {
  const int64_t world = fabrics.front()->options().world;
  std::vector<std::vector<T>> results(static_cast<size_t>(world));
  const Outcomes outcomes = run_ranks(fabrics, [&](int64_t rank) {
    Communicator group(endpoint(rank), "world", 1, first_ranks(world), nullptr);
    results[static_cast<size_t>(rank)] = run_collectives<T>(group);
  });
  for (const std::optional<Error>& outcome : outcomes) {
    INFO((outcome ? outcome->message() : ""));
    CHECK(!outcome);
  }
  return results;
}

}  // namespace

TEMPLATE_TEST_CASE("links and threads give the same bits", "[comm]", float, BFloat16) {
  const auto split =
      GENERATE(std::vector<int64_t>{1, 1}, std::vector<int64_t>{2, 2}, std::vector<int64_t>{1, 3},
               std::vector<int64_t>{1, 1, 1}, std::vector<int64_t>{3, 1, 2});
  LoopbackWorld world(split);
  const auto by_link = run_on<TestType>(
      world.fabrics(), [&](int64_t rank) -> Endpoint& { return world.endpoint(rank); });
  const std::unique_ptr<Fabric> fabric = thread_fabric(static_cast<int64_t>(by_link.size()));
  const auto by_thread = run_on<TestType>(
      {fabric.get()}, [&](int64_t rank) -> Endpoint& { return fabric->endpoint(rank); });
  for (size_t rank = 0; rank < by_link.size(); ++rank) {
    INFO("ranks " << by_link.size() << " rank " << rank);
    CHECK(has_same_bits(by_link[rank], by_thread[rank]));
  }
  CHECK(world.carried() > 0);
  for (Fabric* each : world.fabrics()) CHECK(each->settle(1000));
}

TEST_CASE("a message may come before its communicator is made", "[comm]") {
  LoopbackWorld world({1, 1});
  std::vector<float> sum(2);
  const Outcomes outcomes = run_ranks(world.fabrics(), [&](int64_t rank) {
    if (rank == 1) {
      for (int i = 0; i < 5000 && world.carried() == 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    Communicator group(world.endpoint(rank), "late", 77, first_ranks(2), nullptr);
    std::vector<float> buffer = {static_cast<float>(rank + 1)};
    group.all_reduce(view_of(buffer));
    sum[static_cast<size_t>(rank)] = buffer[0];
  });
  for (const std::optional<Error>& outcome : outcomes) CHECK(!outcome);
  CHECK(sum == std::vector<float>{3, 3});
}

TEST_CASE("memory of a mailbox grows to its largest message and stays", "[comm]") {
  LoopbackWorld world({1, 1});
  std::vector<int64_t> first(2), later(2);
  const Outcomes outcomes = run_ranks(world.fabrics(), [&](int64_t rank) {
    Communicator group(world.endpoint(rank), "world", 1, first_ranks(2), nullptr);
    std::vector<float> buffer(50000);
    group.all_reduce(view_of(buffer));
    group.barrier();
    first[static_cast<size_t>(rank)] = world.endpoint(rank).mailbox_bytes();
    for (int i = 0; i < 10; ++i) group.all_reduce(view_of(buffer, 0, 50000 - 4000 * i));
    group.barrier();
    later[static_cast<size_t>(rank)] = world.endpoint(rank).mailbox_bytes();
  });
  for (const std::optional<Error>& outcome : outcomes) CHECK(!outcome);
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(first[rank] >= 2 * 100'000);  // a slice to add, a sum to copy
    CHECK(first[rank] == later[rank]);
  }
}

TEST_CASE("ranks behind a link find calls that differ", "[comm]") {
  LoopbackWorld world({1, 1});
  const Outcomes outcomes =
      run_ranks(world.fabrics(),
                [&](int64_t rank) {
                  Communicator group(world.endpoint(rank), "world", 1, first_ranks(2), nullptr);
                  std::vector<float> buffer(rank == 0 ? 1024 : 1025);
                  group.all_reduce(view_of(buffer));
                  (void)world.fabric_of(rank).settle(5000);
                },
                {60'000, false});
  for (const std::optional<Error>& outcome : outcomes) {
    REQUIRE(outcome);
    CHECK(outcome->word() == "desync");
    CHECK(outcome->details().find("\"bytes\":4096") != std::string::npos);
    CHECK(outcome->details().find("\"bytes\":4100") != std::string::npos);
  }
}

TEST_CASE("buffers are settled once the link lets go of them", "[comm]") {
  LoopbackWorld world({1, 1});
  std::vector<float> buffer(10000);
  {
    Communicator group(world.endpoint(0), "world", 1, first_ranks(2), nullptr);
    world.hold();
    group.send(1, Lane::kForward, {0, 0}, view_of(buffer));
    CHECK(!world.fabric_of(0).settle(30));
    world.fabric_of(0).abort(Error("peer_lost", "gone").rank(1));
    CHECK_THROWS_AS(group.wait_sent(1, Lane::kForward), Error);
  }
  CHECK(world.fabric_of(0).settle(5000));
  world.let_go();
}

TEST_CASE("heads that cannot be true are refused", "[comm]") {
  Fabric fabric({4, 2, 2, -1, false, 8}, posix_env().clock);
  MessageHead head;
  head.source = 0;
  head.destination = 3;
  head.bytes = 100;
  head.epoch = 7;
  CHECK(fabric.place(head) == nullptr);  // of an older epoch
  head.epoch = 8;
  const auto word_for = [&](const MessageHead& bad) -> std::string {
    try {
      (void)fabric.place(bad);
      return "";
    } catch (const Error& error) {
      return error.word();
    }
  };
  MessageHead bad = head;
  bad.destination = 1;
  CHECK(word_for(bad) == "corrupt");
  bad = head;
  bad.source = 2;  // a local rank does not come by link
  CHECK(word_for(bad) == "corrupt");
  bad.source = 4;
  CHECK(word_for(bad) == "corrupt");
  bad.source = -1;
  CHECK(word_for(bad) == "corrupt");
  bad = head;
  bad.lane = 99;
  CHECK(word_for(bad) == "corrupt");
  bad = head;
  bad.bytes = -1;
  CHECK(word_for(bad) == "corrupt");
  void* place = fabric.place(head);
  REQUIRE(place != nullptr);
  CHECK(fabric.place(head) == place);  // not delivered yet
  fabric.deliver(head);
  CHECK(word_for(head) == "corrupt");  // not released yet
}

}  // namespace plait::test
