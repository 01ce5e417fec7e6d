// Calls that differ, peers that do not come, and aborts: an error with names on every rank, in
// time.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/engine/comm/ordered_values.h"

namespace plait::test {
namespace {

using Body = std::function<void(Communicator&)>;

/// Ranks with a group of all of them; no rank tells the others that it failed.
Outcomes run_apart(Fabric& fabric, const Body& body) {
  return run_ranks({&fabric},
                   [&](int64_t rank) {
                     Communicator group(fabric.endpoint(rank), "world", 1,
                                        first_ranks(fabric.options().world), nullptr);
                     body(group);
                   },
                   {60'000, false});
}

bool contains(const std::optional<Error>& outcome, const std::string& text) {
  return outcome && outcome->details().find(text) != std::string::npos;
}

int64_t milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begin)
      .count();
}

}  // namespace

TEST_CASE("R10, H1: different sizes are desync on every member, with the sizes", "[comm]") {
  const int64_t world = GENERATE(2, 3, 5);
  const int64_t count = GENERATE(16, 1024, 50000);
  const std::unique_ptr<Fabric> fabric = thread_fabric(world);
  std::vector<std::vector<float>> buffers(static_cast<size_t>(world));
  for (int64_t rank = 0; rank < world; ++rank) {
    buffers[static_cast<size_t>(rank)].resize(
        static_cast<size_t>(rank == world - 1 ? count + 1 : count));
  }
  const Outcomes outcomes = run_apart(*fabric, [&](Communicator& group) {
    group.all_reduce(view_of(buffers[static_cast<size_t>(group.index())]));
  });
  for (int64_t rank = 0; rank < world; ++rank) {
    const std::optional<Error>& outcome = outcomes[static_cast<size_t>(rank)];
    INFO((outcome ? outcome->message() : "no error"));
    CHECK(word_of(outcome) == "desync");
    CHECK(contains(outcome, "\"bytes\":" + std::to_string(4 * count)));
    CHECK(contains(outcome, "\"bytes\":" + std::to_string(4 * (count + 1))));
    CHECK(contains(outcome, "\"communicator\":\"world\""));
    CHECK((outcome && outcome->rank() == rank));
    CHECK((outcome && outcome->disposition() == Disposition::kEngineLost));
  }
}

TEST_CASE("R10, H1: different operations are desync at both ends", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  std::vector<float> a(2000), b(2000), part(1000);
  std::vector<BFloat16> half(4000);
  const auto reduce = [&](Communicator& group) { group.all_reduce(view_of(a)); };
  const std::vector<std::pair<std::string, Body>> others = {
      {"all_gather", [&](Communicator& group) { group.all_gather(view_of(part), view_of(b)); }},
      {"reduce_scatter",
       [&](Communicator& group) { group.reduce_scatter(view_of(b), view_of(part)); }},
      {"all_reduce_max", [&](Communicator& group) { group.all_reduce_max(view_of(b)); }},
      {"bfloat16", [&](Communicator& group) { group.all_reduce(view_of(half)); }},
      {"barrier", [&](Communicator& group) { group.barrier(); }},
  };
  const size_t other = GENERATE(0u, 1u, 2u, 3u, 4u);
  const Outcomes outcomes = run_apart(*fabric, [&](Communicator& group) {
    (group.index() == 0 ? Body(reduce) : others[other].second)(group);
  });
  for (const std::optional<Error>& outcome : outcomes) {
    INFO((outcome ? outcome->message() : "no error"));
    CHECK(word_of(outcome) == "desync");
    CHECK(contains(outcome, "\"all_reduce\""));
    CHECK(contains(outcome, "\"" + others[other].first + "\""));
  }
}

TEST_CASE("R10: a rank that left out an operation is found by the sequence", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  const Outcomes outcomes =
      run_ranks({fabric.get()},
                [&](int64_t rank) {
                  auto group = std::make_unique<Communicator>(fabric->endpoint(rank), "data", 4,
                                                              first_ranks(2), nullptr);
                  group->barrier();
                  if (rank == 1) {  // as if the operation had not been counted
                    group = std::make_unique<Communicator>(fabric->endpoint(rank), "data", 4,
                                                           first_ranks(2), nullptr);
                  }
                  group->barrier();
                },
                {60'000, false});
  for (const std::optional<Error>& outcome : outcomes) {
    CHECK(word_of(outcome) == "desync");
    CHECK(contains(outcome, "\"sequence\":0"));
    CHECK(contains(outcome, "\"sequence\":1"));
  }
}

TEST_CASE("broadcasts with two roots end soon", "[comm]") {
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<Fabric> fabric = thread_fabric(3);
  std::vector<std::vector<float>> buffers(3, std::vector<float>(4000));
  const Outcomes outcomes = run_ranks({fabric.get()}, [&](int64_t rank) {
    Communicator group(fabric->endpoint(rank), "world", 1, first_ranks(3), nullptr);
    group.broadcast(view_of(buffers[static_cast<size_t>(rank)]), rank == 1 ? 1 : 0);
    group.barrier();
  });
  for (const std::optional<Error>& outcome : outcomes) CHECK(word_of(outcome) == "desync");
  CHECK(milliseconds_since(begin) < 5000);
}

TEST_CASE("a root notices that another member reduces", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2, -1);
  std::vector<std::vector<float>> buffers(2, std::vector<float>(4000));
  const Outcomes outcomes = run_apart(*fabric, [&](Communicator& group) {
    std::vector<float>& buffer = buffers[static_cast<size_t>(group.index())];
    if (group.index() == 0) {
      group.broadcast(view_of(buffer), 0);
    } else {
      group.all_reduce(view_of(buffer));
    }
  });
  for (const std::optional<Error>& outcome : outcomes) {
    CHECK(word_of(outcome) == "desync");
    CHECK(contains(outcome, "\"broadcast\""));
    CHECK(contains(outcome, "\"all_reduce\""));
  }
}

TEST_CASE("R10, trap 24: a message of another key or size is desync at both ends", "[comm]") {
  const bool is_key = GENERATE(true, false);
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  std::vector<float> from(64), to(65);
  const Outcomes outcomes = run_ranks({fabric.get()}, [&](int64_t rank) {
    Communicator group(fabric->endpoint(rank), "pipeline", 1, first_ranks(2), nullptr);
    if (rank == 0) {
      group.send(1, Lane::kBackward, {12, 3}, view_of(from));
      group.wait_sent(1, Lane::kBackward);
    } else {
      group.receive(0, Lane::kBackward, {is_key ? 13 : 12, 3}, view_of(to, 0, is_key ? 64 : 65));
    }
  });
  for (const std::optional<Error>& outcome : outcomes) {
    INFO((outcome ? outcome->message() : "no error"));
    CHECK(word_of(outcome) == "desync");
    CHECK((outcome && outcome->rank() == 1));  // who found it
    CHECK(contains(outcome, is_key ? "\"micro\":13" : "\"bytes\":260"));
    CHECK(contains(outcome, is_key ? "\"micro\":12" : "\"bytes\":256"));
  }
}

TEST_CASE("an abort ends every wait at once with the error of its origin", "[comm]") {
  constexpr int64_t kWorld = 9;
  const bool may_spin = GENERATE(false, true);
  int64_t fastest = 1'000'000;
  for (int attempt = 0; attempt < 6 && fastest >= 50; ++attempt) {
    const std::unique_ptr<Fabric> fabric = thread_fabric(kWorld, -1, may_spin);
    std::chrono::steady_clock::time_point begin;
    std::atomic<int64_t> slowest{0};
    std::vector<std::vector<float>> buffers(kWorld, std::vector<float>(10000));
    const Outcomes outcomes = run_ranks(
        {fabric.get()},
        [&](int64_t rank) {
          std::vector<float>& buffer = buffers[static_cast<size_t>(rank)];
          if (rank == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(60));
            begin = std::chrono::steady_clock::now();
            fabric->abort(Error("nonfinite_loss", "a value").with("step", 7).rank(0));
            return;
          }
          Communicator group(fabric->endpoint(rank), "pair", static_cast<uint32_t>(rank), {0, rank},
                             nullptr);
          try {
            if (rank == 1) group.receive(0, Lane::kForward, {0, 0}, view_of(buffer));
            if (rank == 2) {
              group.send(0, Lane::kForward, {0, 0}, view_of(buffer));
              group.wait_sent(0, Lane::kForward);
            }
            if (rank == 3) group.broadcast(view_of(buffer), 0);
            if (rank == 4) group.barrier();
            if (rank > 4) group.all_reduce(view_of(buffer));
          } catch (...) {
            const int64_t took = milliseconds_since(begin);
            for (int64_t seen = slowest; took > seen && !slowest.compare_exchange_weak(seen, took);)
              ;
            throw;
          }
        },
        {60'000, false});
    for (int64_t rank = 1; rank < kWorld; ++rank) {
      const std::optional<Error>& outcome = outcomes[static_cast<size_t>(rank)];
      INFO(rank << " " << (outcome ? outcome->message() : "no error"));
      CHECK(word_of(outcome) == "nonfinite_loss");
      CHECK((outcome && outcome->rank() == 0));
      CHECK((outcome && outcome->code() == Code::kOutOfRange));
      CHECK(contains(outcome, "\"step\":7"));
    }
    CHECK(slowest < 5000);
    fastest = std::min<int64_t>(fastest, slowest);
  }
  // A loaded machine may hold up a thread by itself, so the best of some attempts counts; without
  // a wake-up all eight would have to be lucky with their ticks.
  CHECK(fastest < 50);
}

TEST_CASE("after an abort every call throws what it was given first", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2);
  Communicator group(fabric->endpoint(0), "world", 1, first_ranks(2), nullptr);
  std::vector<float> one(1), two(2);
  group.start_all_reduce(view_of(one));
  std::vector<std::string> told;
  fabric->set_on_abort([&](const Error& error) { told.push_back(error.word()); });
  CHECK(!fabric->abort_error());
  fabric->abort(Error("peer_lost", "gone").rank(1));
  fabric->abort(Error("invariant", "later"));
  CHECK(told == std::vector<std::string>{"peer_lost"});
  CHECK(fabric->is_aborted());
  CHECK(word_of(fabric->abort_error()) == "peer_lost");
  int64_t wrong = 0;
  const auto expect = [&](const std::function<void()>& call) {
    try {
      call();
      ++wrong;
    } catch (const Error& error) {
      wrong += error.word() == "peer_lost" && error.rank() == 1 ? 0 : 1;
    }
  };
  expect([&] { group.finish(); });
  expect([&] { group.all_reduce(view_of(one)); });
  expect([&] { group.barrier(); });
  expect([&] { group.broadcast(view_of(one), 0); });
  expect([&] { group.broadcast(view_of(one), 1); });
  expect([&] { group.all_gather(view_of(one), view_of(two)); });
  expect([&] { group.send(1, Lane::kForward, {0, 0}, view_of(one)); });
  expect([&] { group.wait_sent(1, Lane::kForward); });
  expect([&] { group.receive(1, Lane::kForward, {0, 0}, view_of(one)); });
  CHECK(wrong == 0);
  CHECK(fabric->settle(0));
}

TEST_CASE("R3: a peer that does not come is named when the limit is over", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(3, 150);
  std::vector<std::vector<float>> buffers(3, std::vector<float>(1000));
  std::atomic<bool> is_over{false};
  const Outcomes outcomes = run_ranks({fabric.get()}, [&](int64_t rank) {
    Communicator group(fabric->endpoint(rank), "tensor", 1, first_ranks(3), nullptr);
    group.barrier();
    while (rank == 2 && !is_over) std::this_thread::yield();  // busy with something else
    if (rank == 2) return;
    const auto begin = std::chrono::steady_clock::now();
    try {
      if (rank == 0) group.all_reduce(view_of(buffers[0]));
      while (rank == 1 && !is_over) std::this_thread::yield();
    } catch (...) {
      is_over = milliseconds_since(begin) >= 150;
      throw;
    }
  });
  REQUIRE(outcomes[0]);
  INFO(outcomes[0]->message());
  CHECK(outcomes[0]->word() == "stalled");
  CHECK(outcomes[0]->rank() == 1);
  CHECK(contains(outcomes[0], "\"rank\":0"));
  CHECK(contains(outcomes[0], "\"peer\":1"));
  CHECK(contains(outcomes[0], "\"operation\":\"all_reduce\""));
  CHECK(contains(outcomes[0], "\"communicator\":\"tensor\""));
  CHECK(contains(outcomes[0], "\"sequence\":1"));
  const std::vector<OperationRecord> records = fabric->endpoint(0).ring().recent();
  CHECK(!records.back().is_complete);
}

TEST_CASE("a limit set later holds for waits that have begun", "[comm]") {
  const std::unique_ptr<Fabric> fabric = thread_fabric(2, -1);
  std::vector<float> buffer(4);
  const Outcomes outcomes = run_ranks({fabric.get()}, [&](int64_t rank) {
    Communicator group(fabric->endpoint(rank), "world", 1, first_ranks(2), nullptr);
    if (rank == 0) group.receive(1, Lane::kTied, {0, 0}, view_of(buffer));
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      fabric->set_wait_limit_ms(50);
    }
  });
  CHECK(word_of(outcomes[0]) == "stalled");
  CHECK(contains(outcomes[0], "\"operation\":\"receive\""));
  CHECK(!outcomes[1]);
}

}  // namespace plait::test
