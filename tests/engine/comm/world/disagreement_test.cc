// What keeps processes from meeting: each gets the word for it, in time, and may try again.
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "tests/engine/comm/world/world_rig.h"

namespace plait::test {
namespace {

void check_all(const std::vector<Ending>& endings, const std::string& word,
               const std::string& part = "", int64_t within_ms = 5000) {
  for (const Ending& ending : endings) {
    CHECK(ending.word == word);
    INFO(ending.error.message());
    CHECK(has(ending.error.message(), part));
    CHECK(ending.took_ms < within_ms);
  }
}

/// Sends `bytes` to `address` and hangs up at random times.
void disturb(const std::string& address, const std::string& bytes, bool is_patient) {
  try {
    const auto socket = posix_net().connect(address, 200);
    socket->send(bytes.data(), static_cast<int64_t>(bytes.size()));
    if (is_patient) sleep_ms(50);
  } catch (const Error&) {
    // Nobody listens there any more.
  }
}

}  // namespace

TEST_CASE("R7: two processes drive one rank", "[world]") {
  const Worlds worlds =
      make_worlds({world_options(4, 0, 1), world_options(4, 1, 2), world_options(4, 2, 2)});
  const auto endings = join_all(worlds);
  check_all(endings, "topology", "rank=2 ");
  for (const Ending& ending : endings) CHECK(ending.error.rank() == 2);
  CHECK(has(endings[0].error.message(), R"("rank":1)"));
  // After the error the same process makes another world at once.
  CHECK(complete_worlds({1, 1}).size() == 2);
}

TEST_CASE("R7: processes differ in the size of the world", "[world]") {
  const Worlds worlds = make_worlds({world_options(2, 0, 1), world_options(3, 1, 1)});
  check_all(join_all(worlds), "topology", R"("world":3)");
}

TEST_CASE("R9: processes run different versions", "[world]") {
  WorldOptions other = world_options(3, 2, 1);
  other.version = 2000;
  const Worlds worlds = make_worlds({world_options(3, 0, 1), world_options(3, 1, 1), other});
  check_all(join_all(worlds), "version_mismatch",
            R"({"rank":0,"version":1000},{"rank":2,"version":2000})");
  Worlds cards = make_worlds({world_options(3, 0, 1), other});
  CHECK_THROWS_WITH(cards[0]->add_card(cards[1]->card()),
                    Catch::Matchers::StartsWith("version_mismatch: "));
}

TEST_CASE("R6: a wrong token is refused to its owner, and the others go on", "[world]") {
  WorldOptions wrong = world_options(3, 2, 1);
  wrong.token = "guess";
  const Worlds worlds =
      make_worlds({world_options(3, 0, 1), world_options(3, 1, 1), wrong, world_options(3, 2, 1)});
  const std::string address = free_address();
  const auto endings = on_each(worlds, [&](size_t i) {
    if (i == 3) sleep_ms(500);
    worlds[i]->join_tcp(address, 20'000);
  });
  CHECK(endings[2].word == "token");
  CHECK(endings[2].error.code() == Code::kUnauthenticated);
  CHECK(endings[2].took_ms < 2000);
  CHECK_FALSE(has(endings[2].error.message(), "guess"));
  CHECK_FALSE(has(endings[2].error.message(), "secret"));
  for (const size_t i : {0, 1, 3}) CHECK(endings[i].word == "");
  CHECK(worlds[0]->dropped() >= 1);
}

TEST_CASE("a wrong token by cards", "[world]") {
  WorldOptions wrong = world_options(3, 1, 1);
  wrong.token = "";
  const Worlds worlds = make_worlds({world_options(3, 0, 1), wrong, world_options(3, 2, 1)});
  for (const auto& one : worlds) {
    for (const auto& other : worlds) one->add_card(other->card());
  }
  const auto endings = on_each(worlds, [&](size_t i) { worlds[i]->commit(1200); });
  CHECK(endings[1].word == "token");
  for (const size_t i : {0, 2}) {
    CHECK(endings[i].word == "missing_ranks");
    CHECK(has(endings[i].error.message(), "missing=[1]"));
  }
}

TEST_CASE("R7: ranks that do not come are named by the deadline, to all", "[world]") {
  const Held before = held_now();
  {
    const Worlds worlds =
        make_worlds({world_options(6, 0, 1), world_options(6, 1, 1), world_options(6, 4, 1)});
    const auto endings = join_all(worlds, 800);
    check_all(endings, "missing_ranks", "missing=[2,3,5] count=3", 2000);
    for (const Ending& ending : endings) {
      CHECK(ending.error.code() == Code::kDeadlineExceeded);
      CHECK(ending.error.disposition() == Disposition::kRetry);
      CHECK(ending.took_ms >= 700);
    }
    const auto alone = run_each({[&] { worlds[1]->join_tcp(free_address(), 500); }});
    check_all(alone, "missing_ranks", "missing=[0]");
    WorldOptions short_init = world_options(2, 0, 1);
    short_init.init_ms = 300;
    const Worlds unlimited = make_worlds({short_init});
    check_all(join_all(unlimited, -1), "missing_ranks", "missing=[1]", 1500);
    CHECK_THROWS_WITH(worlds[0]->commit(1000), Catch::Matchers::Contains("missing=[1,2,3,4,5]"));
    MemoryStore store;
    store.put("plait/6/card/4", worlds[2]->card());
    const auto kv = run_each({[&] { worlds[0]->join_kv(store, 600); }});
    check_all(kv, "missing_ranks", "missing=[1,2,3,5]", 3000);
  }
  CHECK(held_now(&before) == before);
}

TEST_CASE("a call that failed may be repeated", "[world]") {
  const Worlds worlds = make_worlds({world_options(2, 0, 1), world_options(2, 1, 1)});
  const std::string address = free_address();
  const auto endings = on_each(worlds, [&](size_t i) {
    if (i == 1) {
      // Gives up at first; the process of rank 0 goes on waiting for it.
      try {
        worlds[i]->join_tcp("127.0.0.1:1", 300);
      } catch (const Error& error) {
        if (error.word() != "missing_ranks") throw;
      }
    }
    worlds[i]->join_tcp(address, 20'000);
  });
  for (const Ending& ending : endings) CHECK(ending.word == "");
}

TEST_CASE("R13: a port that is in use, a name that is none", "[world]") {
  const auto occupant = posix_net().listen("127.0.0.1:0");
  const Worlds worlds = make_worlds({world_options(2, 0, 1), world_options(2, 1, 1)});
  const auto used = run_each({[&] { worlds[0]->join_tcp(occupant->address(), 2000); }});
  check_all(used, "address", "address=" + occupant->address() + " errno=98");
  CHECK(used[0].error.disposition() == Disposition::kRetry);
  const auto unknown = run_each({[&] { worlds[0]->join_tcp("no-such-host.invalid:2000", 2000); },
                                 [&] { worlds[1]->join_tcp("no-such-host.invalid:2000", 700); }});
  CHECK(unknown[0].word == "address");
  CHECK(has(unknown[0].error.message(), "errno="));
  CHECK(unknown[1].took_ms < 3000);
  INFO(unknown[1].error.message());
  CHECK((unknown[1].word == "address" || unknown[1].word == "missing_ranks"));
  const auto no_address = run_each({[&] { worlds[0]->join_tcp("127.0.0.1", 2000); }});
  check_all(no_address, "address");
}

TEST_CASE("R13: no descriptors are left", "[world]") {
  const Worlds worlds = make_worlds({world_options(2, 0, 1), world_options(2, 1, 1)});
  worlds[0]->card();  // its listener is there
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{256, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::vector<int> taken;
  for (int one = dup(0); one >= 0; one = dup(0)) taken.push_back(one);
  const auto endings =
      run_each({[&] { worlds[0]->join_tcp("127.0.0.1:0", 1000); }, [&] { worlds[1]->card(); }});
  for (const int one : taken) close(one);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  check_all(endings, "too_many_files", "errno=24");
  CHECK(join_all(worlds)[0].word == "");
}

TEST_CASE("R6: garbage and port scanners are dropped and counted", "[world]") {
  const Worlds worlds = make_worlds({world_options(2, 0, 1), world_options(2, 1, 1)});
  const std::string address = free_address();
  std::atomic<bool> is_over{false};
  std::thread scanner([&] {
    const std::string frame_like = "PLIT\x01";
    for (int i = 0; !is_over; ++i) {
      disturb(address,
              i % 3 == 0   ? "GET / HTTP/1.1\r\n\r\n"
              : i % 3 == 1 ? frame_like
                           : "",
              i % 2 == 0);
    }
  });
  const auto endings = on_each(worlds, [&](size_t i) {
    if (i == 1) sleep_ms(700);
    worlds[i]->join_tcp(address, 20'000);
  });
  is_over = true;
  scanner.join();
  for (const Ending& ending : endings) REQUIRE(ending.word == "");
  CHECK(worlds[0]->dropped() >= 3);
  const auto values = on_each(worlds, [&](size_t i) { worlds[i]->exchange("go", "on", 5000); });
  for (const Ending& ending : values) CHECK(ending.word == "");
}

TEST_CASE("a stranger who says nothing does not hold the meeting up", "[world]") {
  WorldOptions options = world_options(2, 0, 1);
  options.control_ms = 200;
  const Worlds worlds = make_worlds({options, world_options(2, 1, 1)});
  const std::string address = free_address();
  const auto endings = run_each({
      [&] { worlds[0]->join_tcp(address, 20'000); },
      [&] {
        std::vector<std::unique_ptr<Socket>> silent;
        sleep_ms(200);
        for (int i = 0; i < 20; ++i) silent.push_back(posix_net().connect(address, 2000));
        sleep_ms(400);
        worlds[1]->join_tcp(address, 20'000);
      },
  });
  for (const Ending& ending : endings) CHECK(ending.word == "");
  CHECK(worlds[0]->dropped() == 20);
}

TEST_CASE("strangers can not use up all descriptors", "[world]") {
  const Worlds worlds = make_worlds({world_options(2, 0, 1), world_options(2, 1, 1)});
  const std::string address = free_address();
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<std::unique_ptr<Socket>> strangers;
  const auto endings = run_each({
      [&] { worlds[0]->join_tcp(address, 20'000); },
      [&] {
        sleep_ms(200);
        // Half of what is left is for the strangers' own ends, so the other half is used up too.
        const rlimit few{256, before.rlim_max};
        setrlimit(RLIMIT_NOFILE, &few);
        for (int i = 0; i < 200; ++i) {
          try {
            strangers.push_back(posix_net().connect(address, 1000));
          } catch (const Error&) {
            break;
          }
        }
        sleep_ms(200);
        strangers.resize(strangers.size() / 2);
        worlds[1]->join_tcp(address, 20'000);
      },
  });
  setrlimit(RLIMIT_NOFILE, &before);
  for (const Ending& ending : endings) {
    INFO(ending.error.message());
    CHECK(ending.word == "");
  }
  CHECK(worlds[0]->dropped() > 0);
}

TEST_CASE("an abort ends a meeting that waits", "[world]") {
  const Held before = held_now();
  {
    const Worlds worlds =
        make_worlds({world_options(3, 0, 1), world_options(3, 1, 1), world_options(3, 2, 1)});
    MemoryStore store;
    const auto waits = run_each({
        [&] { worlds[0]->join_tcp(free_address(), 20'000); },
        [&] { worlds[1]->join_tcp("127.0.0.1:1", 20'000); },
        [&] { worlds[2]->join_kv(store, 20'000); },
        [&] {
          sleep_ms(200);
          for (const auto& world : worlds) world->abort(Error("aborted", "by the host"));
        },
    });
    for (const size_t i : {0, 1, 2}) {
      CHECK(waits[i].word == "aborted");
      CHECK(waits[i].took_ms < 1200);
    }
    for (const Ending& ending : join_all(worlds)) CHECK(ending.word == "");
  }
  CHECK(held_now(&before) == before);
}

TEST_CASE("a process that dies while the others wait may be replaced", "[world]") {
  Worlds worlds = make_worlds({world_options(3, 0, 1), world_options(3, 1, 1),
                               world_options(3, 1, 1), world_options(3, 2, 1)});
  const std::string address = free_address();
  const auto endings = run_each({
      [&] { worlds[0]->join_tcp(address, 20'000); },
      [&] {
        std::thread killer([&] {
          sleep_ms(200);
          worlds[1]->abort(Error("aborted", "as if killed"));
        });
        try {
          worlds[1]->join_tcp(address, 20'000);
        } catch (const Error&) {
        }
        killer.join();
        worlds[2]->join_tcp(address, 20'000);
      },
      [&] {
        sleep_ms(500);
        worlds[3]->join_tcp(address, 20'000);
      },
  });
  for (const Ending& ending : endings) CHECK(ending.word == "");
}

}  // namespace plait::test
