// Losses, errors and agreements among the processes of a complete world, over real sockets.
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/comm/world/world_rig.h"

namespace plait::test {
namespace {

constexpr int64_t kSecond = 1000;

void check_abort(World& world, const std::string& word, int64_t rank, int64_t since_ms,
                 int64_t limit_ms = kSecond) {
  const std::optional<Error> error = await_abort(world);
  REQUIRE(error);
  INFO(error->message());
  CHECK(error->word() == word);
  CHECK(error->rank() == rank);
  CHECK(error->disposition() == Disposition::kEngineLost);
  CHECK(now_ms() - since_ms < limit_ms);
  const std::optional<Error> verdict = world.verdict(1000);
  REQUIRE(verdict);
  CHECK(verdict->word() == word);
  CHECK(verdict->rank() == rank);
}

}  // namespace

TEST_CASE("R11, H3: a process that dies is reported by rank to all others", "[control]") {
  for (const size_t victim : {0, 1, 2}) {
    Worlds worlds = complete_worlds({1, 2, 1});
    const int64_t rank = worlds[victim]->options().first_rank;
    const int64_t begin = now_ms();
    worlds[victim].reset();
    CHECK(now_ms() - begin < 500);
    for (const auto& world : worlds) {
      if (world == nullptr) continue;
      check_abort(*world, "peer_lost", rank, begin);
      CHECK(has(world->verdict(0)->message(), "rank=" + std::to_string(rank) + " "));
    }
    // The survivors make a smaller world in the same process.
    worlds.clear();
    CHECK(complete_worlds({1, 1}).size() == 2);
  }
}

TEST_CASE("a loss ends an exchange that waits, and names it", "[control]") {
  Worlds worlds = complete_worlds({1, 1, 1});
  const auto endings = on_each(worlds, [&](size_t i) {
    if (i == 1) {
      sleep_ms(200);
      worlds[1].reset();
    } else {
      worlds[i]->exchange("save", "", 20'000);
    }
  });
  for (const size_t i : {0, 2}) {
    CHECK(endings[i].word == "peer_lost");
    CHECK(endings[i].error.rank() == 1);
    CHECK(has(endings[i].error.message(), "operation=save sequence="));
    CHECK(endings[i].took_ms < 200 + kSecond);
  }
  const auto later = run_each({[&] { worlds[0]->exchange("step", "", 20'000); }});
  CHECK(later[0].word == "peer_lost");
  CHECK(later[0].took_ms < 100);
}

TEST_CASE("exchanges of a background thread run beside those of calls, and end with the world",
          "[control]") {
  Worlds worlds = complete_worlds({1, 2, 1});
  // Each stream has its own names, numbers and pace; neither sees the other as a mismatch.
  const auto run_line = [&](ExchangeStream stream, const std::string& name, int times) {
    return on_each(worlds, [&, stream, times](size_t i) {
      for (int n = 0; n < times; ++n) {
        if (static_cast<size_t>(n) % 3 == i) sleep_ms(1);
        const std::string value = name + std::to_string(n) + "/";
        const auto all = worlds[i]->exchange(name + std::to_string(n), value + std::to_string(i),
                                             10'000, stream);
        for (size_t peer = 0; peer < all.size(); ++peer) {
          if (all[peer] != value + std::to_string(peer)) throw Error("corrupt", all[peer]);
        }
      }
    });
  };
  std::vector<Ending> saves;
  std::thread background([&] { saves = run_line(ExchangeStream::kSaves, "save", 60); });
  const std::vector<Ending> calls = run_line(ExchangeStream::kCalls, "step", 150);
  background.join();
  for (const std::vector<Ending>& endings : {saves, calls}) {
    for (const Ending& ending : endings) {
      INFO(ending.error.message());
      CHECK(ending.word == "");
    }
  }

  // One that nobody joins is given up on demand, and nothing was decided: it may be tried again.
  std::thread stopper([&] {
    sleep_ms(100);
    worlds[1]->end_exchange(ExchangeStream::kSaves);
  });
  const auto alone =
      run_each({[&] { worlds[1]->exchange("late", "", 20'000, ExchangeStream::kSaves); }});
  stopper.join();
  CHECK(alone[0].word == "deadline");
  CHECK(alone[0].took_ms < 1000);
  for (const Ending& ending : run_line(ExchangeStream::kSaves, "again", 2))
    CHECK(ending.word == "");

  // A loss ends both.
  std::vector<Ending> waiting(2);
  std::thread saver([&] {
    waiting = run_each({[&] { worlds[0]->exchange("save", "", 20'000, ExchangeStream::kSaves); },
                        [&] { worlds[1]->exchange("save", "", 20'000, ExchangeStream::kSaves); }});
  });
  const auto stepping = run_each({[&] { worlds[0]->exchange("step", "", 20'000); },
                                  [&] {
                                    sleep_ms(200);
                                    worlds[2].reset();
                                  }});
  saver.join();
  CHECK(stepping[0].word == "peer_lost");
  for (const Ending& ending : waiting) {
    CHECK(ending.word == "peer_lost");
    CHECK(ending.error.rank() == 3);
    CHECK(ending.took_ms < 2000);
  }
}

TEST_CASE("R2: a process that stands still is reported as frozen, and is fenced when it comes back",
          "[control]") {
  PausableNet net;
  const auto change = [](WorldOptions options) {
    options.heartbeat_ms = 100;
    options.frozen_ms = 500;
    return options;
  };
  Worlds worlds = make_worlds({change(world_options(3, 0, 1)), change(world_options(3, 2, 1))});
  worlds.push_back(World::create(change(world_options(3, 1, 1)), posix_env(), net));
  for (const Ending& ending : join_all(worlds)) REQUIRE(ending.word == "");
  sleep_ms(300);
  const int64_t begin = now_ms();
  net.is_paused = true;
  for (const size_t i : {0, 1}) check_abort(*worlds[i], "peer_frozen", 1, begin, 500 + kSecond);
  CHECK(now_ms() - begin >= 350);
  CHECK_FALSE(worlds[2]->fabric().is_aborted());
  sleep_ms(300);
  const int64_t end = now_ms();
  net.is_paused = false;
  check_abort(*worlds[2], "fenced", 1, end);
  CHECK(has(worlds[2]->verdict(0)->message(), "cause=peer_frozen"));
  const auto later = run_each({[&] { worlds[2]->exchange("commit", "", 2000); }});
  CHECK(later[0].word == "fenced");
}

TEST_CASE("a world whose processes all stood still goes on", "[control]") {
  PausableNet net;
  WorldOptions first = world_options(2, 0, 1), second = world_options(2, 1, 1);
  for (WorldOptions* options : {&first, &second}) {
    options->heartbeat_ms = 50;
    options->frozen_ms = 250;
  }
  const Worlds worlds = make_worlds({first, second}, net);
  for (const Ending& ending : join_all(worlds)) REQUIRE(ending.word == "");
  net.is_paused = true;
  sleep_ms(800);
  net.is_paused = false;
  for (const Ending& ending :
       on_each(worlds, [&](size_t i) { worlds[i]->exchange("step", "", 5000); })) {
    CHECK(ending.word == "");
  }
}

TEST_CASE("an error of one rank ends all processes alike", "[control]") {
  const Worlds worlds = complete_worlds({1, 2, 1});
  const int64_t begin = now_ms();
  worlds[1]->fabric().abort(
      Error("nonfinite_loss", "the loss is not finite").with("step", 7).rank(2));
  for (const size_t i : {0, 2}) check_abort(*worlds[i], "nonfinite_loss", 2, begin);
  CHECK(has(worlds[0]->verdict(0)->message(), "step=7"));
  CHECK(worlds[1]->verdict(1000)->word() == "nonfinite_loss");
}

TEST_CASE("of several errors at once all take the same", "[control]") {
  for (int trial = 0; trial < 20; ++trial) {
    const Worlds worlds = complete_worlds({1, 1, 1, 1});
    on_each(worlds, [&](size_t i) {
      worlds[i]->abort(
          Error(i % 2 == 0 ? "io_error" : "no_memory", "at once").rank(static_cast<int32_t>(i)));
    });
    const std::optional<Error> first = worlds[0]->verdict(2000);
    REQUIRE(first);
    for (const auto& world : worlds) {
      const std::optional<Error> other = world->verdict(2000);
      REQUIRE(other);
      CHECK(other->word() == first->word());
      CHECK(other->rank() == first->rank());
    }
  }
}

TEST_CASE("an abort of the host is its own affair; the others lose its ranks", "[control]") {
  const Worlds worlds = complete_worlds({1, 1, 1});
  const int64_t begin = now_ms();
  const auto endings = on_each(worlds, [&](size_t i) {
    if (i == 2) {
      sleep_ms(100);
      worlds[2]->abort(Error("aborted", "by the host"));
    } else {
      worlds[i]->exchange("step", "", 20'000);
    }
  });
  for (const size_t i : {0, 1}) {
    CHECK(endings[i].word == "peer_lost");
    CHECK(endings[i].error.rank() == 2);
  }
  CHECK(worlds[2]->verdict(1000)->word() == "aborted");
  CHECK(now_ms() - begin < 100 + kSecond);
}

TEST_CASE("R10: different calls are desync for all, with a table, and the world goes on",
          "[control]") {
  const Worlds worlds = complete_worlds({1, 2, 1});
  const auto endings = on_each(worlds, [&](size_t i) {
    worlds[i]->exchange(i == 1 ? "save" : "step", std::string(i, 'x'), 20'000);
  });
  for (const Ending& ending : endings) {
    CHECK(ending.word == "desync");
    CHECK(ending.error.rank() == 1);
    CHECK(ending.error.disposition() == Disposition::kUnchanged);
    CHECK(has(ending.error.message(), R"({"rank":1,"ranks":2,"operation":"save","sequence":)"));
    CHECK(has(ending.error.message(), R"("bytes":1})"));
    CHECK(ending.took_ms < 2000);
  }
  for (const Ending& ending :
       on_each(worlds, [&](size_t i) { worlds[i]->exchange("step", "", 20'000); })) {
    CHECK(ending.word == "");
  }
}

TEST_CASE("R10: a mismatch is told without waiting for who never comes", "[control]") {
  const Worlds worlds =
      complete_worlds({1, 1, 1}, [](WorldOptions* options) { options->desync_ms = 300; });
  const auto endings = on_each(worlds, [&](size_t i) {
    if (i == 2) sleep_ms(900);
    worlds[i]->exchange(i == 0 ? "step" : "save", "", 20'000);
  });
  for (const Ending& ending : endings) CHECK(ending.word == "desync");
  CHECK(endings[0].took_ms < 2000);
  CHECK(has(endings[0].error.message(), R"("operation":"none")"));
}

TEST_CASE("R10: who does not come is named, and the call may be repeated", "[control]") {
  const Worlds worlds = complete_worlds({1, 2, 1});
  const auto endings = on_each(worlds, [&](size_t i) {
    if (i != 1) worlds[i]->exchange("step", "", i == 0 ? 300 : 400);
  });
  for (const size_t i : {0, 2}) {
    CHECK(endings[i].word == "deadline");
    CHECK(endings[i].error.disposition() == Disposition::kRetry);
    CHECK(endings[i].took_ms < 1500);
    CHECK(has(endings[i].error.message(), "operation=step sequence="));
  }
  CHECK(has(endings[2].error.message(), "1,2"));
  for (const Ending& ending :
       on_each(worlds, [&](size_t i) { worlds[i]->exchange("step", "", 20'000); })) {
    CHECK(ending.word == "");
  }
}

TEST_CASE("who leaves is no loss, but nothing can be agreed without it", "[control]") {
  Worlds worlds = complete_worlds({1, 1, 1});
  const auto endings = on_each(worlds, [&](size_t i) {
    if (i == 2) {
      worlds[2]->leave(200);
      worlds[2].reset();
    } else {
      worlds[i]->exchange("step", "", 20'000);
    }
  });
  for (const size_t i : {0, 1}) {
    CHECK(endings[i].word == "desync");
    CHECK(has(endings[i].error.message(), R"("operation":"leave")"));
    CHECK_FALSE(worlds[i]->fabric().is_aborted());
  }
  const auto rest = run_each({[&] { worlds[0]->leave(200); },
                              [&] {
                                sleep_ms(50);
                                worlds[1]->exchange("step", "", 5000);
                              }});
  CHECK(rest[0].word == "");
  CHECK(rest[1].word == "desync");
  CHECK_FALSE(worlds[1]->fabric().is_aborted());
}

TEST_CASE("a storm of aborts and ends leaves nothing behind", "[control]") {
  const Held before = held_now();
  for (int trial = 0; trial < 10; ++trial) {
    Worlds worlds = complete_worlds({1, 1, 1});
    on_each(worlds, [&](size_t i) {
      if (i == static_cast<size_t>(trial % 3)) {
        worlds[i].reset();
        return;
      }
      try {
        for (;;) worlds[i]->exchange("step", "", 5000);
      } catch (const Error& error) {
        if (error.word() != "peer_lost") throw;
      }
      worlds[i].reset();
    });
  }
  CHECK(held_now(&before) == before);
}

}  // namespace plait::test
