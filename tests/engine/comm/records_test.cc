// What a rank remembers of its operations and counts of its traffic.
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/comm/ordered_values.h"

namespace plait::test {

TEST_CASE("the ring keeps the last operations in order", "[comm]") {
  OperationRing ring;
  CHECK(ring.recent().empty());
  const uint64_t first = ring.begin("forward 0 0", 0, 5, false, 10);
  CHECK(ring.recent().size() == 1);
  CHECK(!ring.recent()[0].is_complete);
  ring.end(first, 20);
  const OperationRecord record = ring.recent()[0];
  CHECK(std::string(record.name) == "forward 0 0");
  CHECK(record.is_complete);
  CHECK(!record.is_communication);
  CHECK(record.bytes == 5);
  CHECK(record.begin_ns == 10);
  CHECK(record.end_ns == 20);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t number = ring.begin(std::string(80, 'x').c_str(), 7, 1, true, i);
    ring.end(number, i + 1);
  }
  ring.end(first, 99);  // long overwritten
  const std::vector<OperationRecord> kept = ring.recent();
  REQUIRE(kept.size() == OperationRing::kEntries);
  CHECK(kept.front().number == 2001 - OperationRing::kEntries);
  CHECK(kept.back().number == 2000);
  CHECK(kept.front().end_ns == kept.front().begin_ns + 1);
  CHECK(std::string(kept.back().name) == std::string(OperationRecord::kNameBytes - 1, 'x'));
}

TEST_CASE("communication is kept for a trace while there is room", "[comm]") {
  OperationRing ring;
  const auto run = [&](const char* name, bool is_communication) {
    ring.end(ring.begin(name, 0, 0, is_communication, 1), 2);
  };
  run("tensor all_reduce", true);
  CHECK(ring.traced().empty());
  ring.trace(2);
  run("tensor all_reduce", true);
  CHECK(ring.traced().empty());
  ring.set_tracing(true);
  for (int i = 0; i < 3; ++i) {
    run("forward 0 0", false);
    run("tensor all_gather", true);
  }
  REQUIRE(ring.traced().size() == 2);
  CHECK(std::string(ring.traced()[1].name) == "tensor all_gather");
  CHECK(ring.traced()[1].is_complete);
  CHECK(ring.untraced() == 1);
  CHECK(ring.recent().size() == 8);
  ring.trace(0);
  CHECK(ring.traced().empty());
  CHECK(ring.untraced() == 0);
}

TEST_CASE("the ring is read while it is written", "[comm]") {
  OperationRing ring;
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    for (int i = 0; i < 20000; ++i) ring.end(ring.begin("operation", 0, i, true, i), i);
    is_over = true;
  });
  bool is_ordered = true;
  do {
    const std::vector<OperationRecord> records = ring.recent();
    for (size_t i = 1; i < records.size(); ++i) {
      is_ordered = is_ordered && records[i].number == records[i - 1].number + 1;
    }
  } while (!is_over);
  writer.join();
  CHECK(is_ordered);
}

TEST_CASE("calls of a group stand in its rank's ring", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  run_world(*fabric, [&](Communicator& group) {
    std::vector<float> buffer(8);
    group.all_reduce(view_of(buffer));
    group.barrier();
    group.all_reduce_max(view_of(buffer));
    if (group.index() == 0) group.send(1, Lane::kForward, {3, 1}, view_of(buffer));
    if (group.index() == 1) group.receive(0, Lane::kForward, {3, 1}, view_of(buffer));
    if (group.index() == 0) group.wait_sent(1, Lane::kForward);
    group.start_all_reduce(view_of(buffer));
    group.finish();
  });
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::vector<OperationRecord> records = fabric->endpoint(rank).ring().recent();
    REQUIRE(records.size() == 5);
    CHECK(std::string(records[0].name) == "world all_reduce");
    CHECK(std::string(records[1].name) == "world barrier");
    CHECK(std::string(records[2].name) == "world all_reduce_max");
    CHECK(std::string(records[3].name) == (rank == 0 ? "world send" : "world receive"));
    CHECK(std::string(records[4].name) == "world all_reduce");
    CHECK(records[0].sequence == 0);
    CHECK(records[4].sequence == 3);
    CHECK(records[0].bytes == 32);
    for (const OperationRecord& record : records) {
      CHECK(record.is_communication);
      CHECK(record.is_complete);
      CHECK(record.begin_ns <= record.end_ns);
    }
  }
}

TEST_CASE("bytes sent equal the formulas of the collectives", "[comm]") {
  const int64_t world = GENERATE(2, 3, 4, 8);
  const int64_t count = 24 * 1000;  // fp32 elements; every world divides it
  const int64_t bytes = 4 * count;
  const std::unique_ptr<Fabric> fabric = thread_fabric(world);
  std::vector<std::vector<Traffic>> traffic(static_cast<size_t>(world));
  run_world(*fabric, [&](Communicator& group) {
    std::vector<float> buffer(static_cast<size_t>(count)), part(static_cast<size_t>(count / world));
    group.all_reduce(view_of(buffer));
    group.reduce_scatter(view_of(buffer), view_of(part));
    group.all_gather(view_of(part), view_of(buffer));
    group.broadcast(view_of(buffer), 0);
    group.barrier();
    const int64_t next = (group.index() + 1) % world, last = (group.index() + world - 1) % world;
    group.send(next, Lane::kForward, {}, view_of(part));
    group.receive(last, Lane::kForward, {}, view_of(buffer, 0, count / world));
    group.wait_sent(next, Lane::kForward);
    for (int kind = 0; kind < kCollectiveKinds; ++kind) {
      traffic[static_cast<size_t>(group.index())].push_back(
          group.traffic(static_cast<CollectiveKind>(kind)));
    }
  });
  for (int64_t rank = 0; rank < world; ++rank) {
    const auto of = [&](CollectiveKind kind) {
      return traffic[static_cast<size_t>(rank)][static_cast<size_t>(kind)];
    };
    CHECK(of(CollectiveKind::kAllReduce).bytes == 2 * bytes * (world - 1) / world);
    CHECK(of(CollectiveKind::kAllReduce).messages == 2 * (world - 1));
    CHECK(of(CollectiveKind::kReduceScatter).bytes == bytes * (world - 1) / world);
    CHECK(of(CollectiveKind::kReduceScatter).messages == world - 1);
    CHECK(of(CollectiveKind::kAllGather).bytes == bytes * (world - 1) / world);
    CHECK(of(CollectiveKind::kBroadcast).bytes == (rank == 0 ? bytes * (world - 1) : 0));
    CHECK(of(CollectiveKind::kBarrier).bytes == 0);
    CHECK(of(CollectiveKind::kBarrier).messages == world - 1);
    CHECK(of(CollectiveKind::kSendReceive).bytes == bytes / world);
    CHECK(of(CollectiveKind::kSendReceive).messages == 1);
  }
}

TEST_CASE("traffic is read while a rank counts it", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(3);
  constexpr int64_t kRounds = 500;
  std::atomic<const Communicator*> shown{nullptr};
  std::atomic<bool> is_over{false};
  bool is_growing = true;
  std::thread reader([&] {
    Traffic last;
    while (!is_over) {
      const Communicator* group = shown;
      if (group == nullptr) continue;
      const Traffic now = group->traffic(CollectiveKind::kAllReduce);
      is_growing = is_growing && now.bytes >= last.bytes && now.messages >= last.messages &&
                   now.wait_ns >= last.wait_ns;
      last = now;
    }
  });
  Traffic end;
  run_world(*fabric, [&](Communicator& group) {
    if (group.index() == 0) shown = &group;
    std::vector<float> buffer(16);
    for (int64_t round = 0; round < kRounds; ++round) group.all_reduce(view_of(buffer));
    if (group.index() != 0) return;
    end = group.traffic(CollectiveKind::kAllReduce);
    is_over = true;  // the reader is out of the group before it goes
    reader.join();
  });
  CHECK(is_growing);
  CHECK(end.messages == 2 * kRounds);
  CHECK(end.bytes == 2 * kRounds * 64);
}

TEST_CASE("time in waits is counted where it was spent", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  std::vector<int64_t> waited(2);
  run_world(*fabric, [&](Communicator& group) {
    if (group.index() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(250));
    group.barrier();
    waited[static_cast<size_t>(group.index())] = group.traffic(CollectiveKind::kBarrier).wait_ns;
  });
  CHECK(waited[0] >= 100'000'000);
  CHECK(waited[0] < 20'000'000'000);
  CHECK(waited[1] < waited[0]);
}

}  // namespace plait::test
