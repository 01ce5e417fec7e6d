// Point-to-point messages: order, lanes, one message under way.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/engine/comm/ordered_values.h"

namespace plait::test {
namespace {

std::vector<float> one(float value) { return {value}; }

}  // namespace

TEST_CASE("a lane keeps the order of its messages", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  std::vector<float> got;
  run_world(*fabric, [&](Communicator& group) {
    for (int64_t i = 0; i < 200; ++i) {
      std::vector<float> value = one(static_cast<float>(i));
      if (group.index() == 0) {
        group.send(1, Lane::kForward, {i, 2}, view_of(value));
        group.wait_sent(1, Lane::kForward);
      } else {
        group.receive(0, Lane::kForward, {i, 2}, view_of(value));
        got.push_back(value[0]);
      }
    }
  });
  REQUIRE(got.size() == 200);
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == static_cast<float>(i));
}

TEST_CASE("lanes and directions between two ranks are independent", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  std::vector<std::vector<float>> got(2);
  run_world(*fabric, [&](Communicator& group) {
    const int64_t peer = 1 - group.index();
    std::vector<float> forward = one(1), backward = one(2), tied = one(3), value = one(0);
    group.send(peer, Lane::kForward, {0, 0}, view_of(forward));
    group.send(peer, Lane::kBackward, {0, 0}, view_of(backward));
    group.send(peer, Lane::kTied, {0, 0}, view_of(tied));
    group.barrier();  // collectives go their own way
    for (Lane lane : {Lane::kTied, Lane::kForward, Lane::kBackward}) {
      group.receive(peer, lane, {0, 0}, view_of(value));
      got[static_cast<size_t>(group.index())].push_back(value[0]);
    }
    for (Lane lane : {Lane::kForward, Lane::kBackward, Lane::kTied}) group.wait_sent(peer, lane);
  });
  for (const std::vector<float>& values : got) CHECK(values == std::vector<float>{3, 1, 2});
}

TEST_CASE("trap 25: the first send on a lane returns at once, the second waits for the receipt",
          "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  std::atomic<int> sent{0};
  std::atomic<int> sent_before_receipt{-1};
  run_world(*fabric, [&](Communicator& group) {
    std::vector<float> a = one(1), b = one(2), c = one(3);
    if (group.index() == 0) {
      group.send(1, Lane::kForward, {0, 0}, view_of(a));
      sent = 1;
      group.send(1, Lane::kForward, {1, 0}, view_of(b));
      sent = 2;
      group.wait_sent(1, Lane::kForward);
      return;
    }
    while (sent == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    sent_before_receipt = sent.load();
    group.receive(0, Lane::kForward, {0, 0}, view_of(c));
    group.receive(0, Lane::kForward, {1, 0}, view_of(c));
  });
  CHECK(sent_before_receipt == 1);
  CHECK(sent == 2);
}

TEST_CASE("a message is read from the sender's own memory", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  std::atomic<bool> is_changed{false};
  std::vector<float> from = one(1), to = one(0);
  run_world(*fabric, [&](Communicator& group) {
    if (group.index() == 0) {
      group.send(1, Lane::kForward, {0, 0}, view_of(from));
      from[0] = 5;  // the receiver has not been let on yet
      is_changed = true;
      group.wait_sent(1, Lane::kForward);
    } else {
      while (!is_changed) std::this_thread::yield();
      group.receive(0, Lane::kForward, {0, 0}, view_of(to));
    }
  });
  CHECK(to[0] == 5);
  CHECK(fabric->endpoint(1).mailbox_bytes() == 0);
}

TEST_CASE("a ring of ranks with one message a lane finishes", "[comm]") {
  constexpr int64_t kWorld = 7;
  const std::unique_ptr<Fabric> fabric = thread_fabric(kWorld);
  std::vector<int64_t> wrong(kWorld);
  run_world(*fabric, [&](Communicator& group) {
    const int64_t next = (group.index() + 1) % kWorld, last = (group.index() + 6) % kWorld;
    std::vector<float> out[2] = {std::vector<float>(5000), std::vector<float>(5000)}, in(5000);
    for (int64_t i = 0; i < 100; ++i) {
      std::vector<float>& buffer = out[i % 2];  // two: the last one is still being read
      std::fill(buffer.begin(), buffer.end(), static_cast<float>(group.index() * 1000 + i));
      group.send(next, Lane::kForward, {i, 0}, view_of(buffer));
      group.receive(last, Lane::kForward, {i, 0}, view_of(in));
      const std::vector<float> want(5000, static_cast<float>(last * 1000 + i));
      wrong[static_cast<size_t>(group.index())] += has_same_bits(in, want) ? 0 : 1;
    }
    group.wait_sent(next, Lane::kForward);
  });
  for (int64_t errors : wrong) CHECK(errors == 0);
}

TEST_CASE("messages cross collectives that are under way", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(3);
  std::vector<int64_t> wrong(3);
  run_world(*fabric, [&](Communicator& group) {
    const int64_t next = (group.index() + 1) % 3, last = (group.index() + 2) % 3;
    std::vector<float> sum(30000, 1.0f);
    std::vector<float> out = one(static_cast<float>(group.index())), in = one(-1);
    group.start_all_reduce(view_of(sum));
    group.send(next, Lane::kBackward, {0, 0}, view_of(out));
    group.receive(last, Lane::kBackward, {0, 0}, view_of(in));
    group.finish();
    group.wait_sent(next, Lane::kBackward);
    int64_t& errors = wrong[static_cast<size_t>(group.index())];
    errors += in[0] == static_cast<float>(last) ? 0 : 1;
    errors += has_same_bits(sum, std::vector<float>(30000, 3.0f)) ? 0 : 1;
  });
  for (int64_t errors : wrong) CHECK(errors == 0);
}

}  // namespace plait::test
