// Ranks of several processes: the same bits as ranks of one, whatever carries them.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <mutex>
#include <random>
#include <vector>

#include "tests/engine/comm/link_rig.h"

namespace plait::test {
namespace {

const std::vector<std::vector<int64_t>> kSplits = {{1, 1}, {2, 1}, {1, 1, 2}};

template <class T>
std::vector<T> part_of(int64_t rank, int64_t count) {
  std::vector<T> part(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    part[static_cast<size_t>(i)] = from_float<T>(sample_value(rank, i));
  }
  return part;
}

template <class T>
TensorView view_of(std::vector<T>& values) {
  return {values.data(), DTypeOf<T>::value, {static_cast<int64_t>(values.size())}};
}

template <class T>
void append(std::vector<char>* bytes, const std::vector<T>& values) {
  const size_t before = bytes->size();
  bytes->resize(before + values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(bytes->data() + before, values.data(), values.size() * sizeof(T));
  }
}

/// More than any buffer on the way.
constexpr int64_t kLargeCount = 2'400'000;

std::vector<int64_t> some_counts() {
  std::mt19937 random(7);
  std::vector<int64_t> counts = {0, 1, 5, 8192, 65536};
  for (int i = 0; i < 6; ++i) counts.push_back(random() % 50'000);
  return counts;
}

/// All that a rank gets from every kind of collective, as bytes.
template <class T>
std::vector<char> run_all_collectives(Communicator& group) {
  std::vector<char> results;
  for (int64_t count : some_counts()) {
    std::vector<T> own = part_of<T>(group.index(), count);
    group.all_reduce(view_of(own));
    append(&results, own);
    std::vector<T> parts = part_of<T>(group.index() + 17, count * group.size());
    std::vector<T> sum(static_cast<size_t>(count));
    group.reduce_scatter(view_of(parts), view_of(sum));
    append(&results, sum);
    group.all_gather(view_of(sum), view_of(parts));
    append(&results, parts);
    const int64_t root = count % group.size();
    std::vector<T> sent = part_of<T>(group.index() == root ? 99 : 0, count);
    group.broadcast(view_of(sent), root);
    append(&results, sent);
    group.barrier();
    group.start_all_reduce(view_of(sent));
    group.finish();
    append(&results, sent);
  }
  std::vector<T> large = part_of<T>(group.index(), kLargeCount);
  group.all_reduce(view_of(large));
  append(&results, large);
  return results;
}

using ByRank = std::vector<std::vector<char>>;

template <class T>
ByRank results_of(const Fabrics& fabrics) {
  ByRank results(static_cast<size_t>(fabrics.front()->options().world));
  run_processes(fabrics, [&](Communicator& group) {
    results[static_cast<size_t>(group.index())] = run_all_collectives<T>(group);
  });
  return results;
}

}  // namespace

TEMPLATE_TEST_CASE("processes and threads give the same bits", "[links]", float, BFloat16) {
  for (const std::vector<int64_t>& split : kSplits) {
    int64_t world = 0;
    for (int64_t local : split) world += local;
    Fabrics threads;
    threads.push_back(thread_fabric(world));
    const ByRank want = results_of<TestType>(threads);
    for (const char* transport : {"tcp", "shm"}) {
      const ByRank got = results_of<TestType>(join_processes(split, transport));
      for (size_t rank = 0; rank < want.size(); ++rank) {
        const bool is_same = want[rank] == got[rank];
        INFO(transport << ", world " << world << ", rank " << rank);
        CHECK(want[rank].size() > kLargeCount);
        CHECK(is_same);
      }
    }
  }
}

TEST_CASE("the maximum over processes", "[links]") {
  const std::string transport = GENERATE("tcp", "shm");
  run_processes(join_processes({1, 2}, transport), [&](Communicator& group) {
    std::vector<float> value = {static_cast<float>(group.index()), -1.0f - group.index()};
    group.all_reduce_max(view_of(value));
    CHECK((value == std::vector<float>{2.0f, -1.0f}));
  });
}

TEST_CASE("large messages in both directions at once do not stop each other", "[links]") {
  const std::string transport = GENERATE("tcp", "shm");
  run_processes(join_processes({1, 1, 1}, transport), [&](Communicator& group) {
    const int64_t count = 5'000'000, own = group.index();
    std::vector<float> mine = part_of<float>(own, count), theirs(mine.size());
    for (int64_t peer = 0; peer < group.size(); ++peer) {
      if (peer != own) group.send(peer, Lane::kForward, {own, peer}, view_of(mine));
    }
    for (int64_t peer = 0; peer < group.size(); ++peer) {
      if (peer == own) continue;
      group.receive(peer, Lane::kForward, {peer, own}, view_of(theirs));
      const bool is_same = theirs == part_of<float>(peer, count);
      CHECK(is_same);
    }
    for (int64_t peer = 0; peer < group.size(); ++peer) {
      if (peer != own) group.wait_sent(peer, Lane::kForward);
    }
  });
}

TEST_CASE("thousands of small messages on several lanes keep their order", "[links]") {
  const std::string transport = GENERATE("tcp", "shm");
  run_processes(join_processes({2, 2}, transport), [&](Communicator& group) {
    const int64_t next = (group.index() + 1) % 4, previous = (group.index() + 3) % 4;
    std::vector<float> out(3), in(3), back(1), from(1);
    for (int64_t i = 0; i < 3000; ++i) {
      out = {static_cast<float>(i), static_cast<float>(group.index()), 0.5f};
      back[0] = static_cast<float>(-i);
      group.send(next, Lane::kForward, {i, 1}, view_of(out));
      group.send(previous, Lane::kBackward, {i, 0}, view_of(back));
      group.receive(previous, Lane::kForward, {i, 1}, view_of(in));
      group.receive(next, Lane::kBackward, {i, 0}, view_of(from));
      group.wait_sent(next, Lane::kForward);
      group.wait_sent(previous, Lane::kBackward);
      if (in[0] != static_cast<float>(i) || in[1] != static_cast<float>(previous) ||
          from[0] != static_cast<float>(-i)) {
        throw Error("invariant", "a message was swapped");
      }
    }
  });
}

TEST_CASE("a sender that runs ahead waits for the mailbox, not for ever", "[links]") {
  const std::string transport = GENERATE("tcp", "shm");
  run_processes(join_processes({1, 1}, transport), [&](Communicator& group) {
    std::vector<float> value(1);
    for (int64_t i = 0; i < 500; ++i) {
      value[0] = static_cast<float>(i);
      if (group.index() == 0) {
        group.send(1, Lane::kForward, {i, 0}, view_of(value));
        group.wait_sent(1, Lane::kForward);
      } else {
        group.receive(0, Lane::kForward, {i, 0}, view_of(value));
        if (value[0] != static_cast<float>(i)) throw Error("invariant", "a message was lost");
      }
    }
  });
}

}  // namespace plait::test
