// The three ways to meet, and what a complete world can do.
#include <catch2/catch.hpp>
#include <string>

#include "tests/engine/comm/world/world_rig.h"

namespace plait::test {
namespace {

/// Everybody sees the same peers, and a byte goes both ways over each data connection.
void check_complete(const Worlds& worlds) {
  for (size_t i = 0; i < worlds.size(); ++i) {
    World& world = *worlds[i];
    REQUIRE(world.is_complete());
    REQUIRE(world.peers().size() == worlds.size());
    CHECK(world.own_peer() == static_cast<int64_t>(i));
    for (size_t j = 0; j < worlds.size(); ++j) {
      CHECK(world.peers()[j].first_rank == worlds[j]->options().first_rank);
      CHECK(world.peers()[j].local_ranks == worlds[j]->options().local_ranks);
      CHECK(world.peers()[j].pid == posix_net().process_id());
      CHECK(world.peers()[j].host == worlds[0]->peers()[0].host);
      CHECK(has(world.peers()[j].address, ":"));
    }
    CHECK(world.fabric().options().first_rank == world.options().first_rank);
    CHECK_FALSE(world.verdict(0));
  }
  for (size_t i = 0; i < worlds.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const auto there = worlds[i]->take_data_socket(static_cast<int64_t>(j));
      const auto back = worlds[j]->take_data_socket(static_cast<int64_t>(i));
      REQUIRE(there != nullptr);
      REQUIRE(back != nullptr);
      CHECK(worlds[i]->take_data_socket(static_cast<int64_t>(j)) == nullptr);
      for (const auto& [from, to] :
           {std::pair(there.get(), back.get()), std::pair(back.get(), there.get())}) {
        const char sent = static_cast<char>(i * 16 + j);
        char got = 0;
        CHECK(from->send(&sent, 1) == 1);
        std::vector<Net::Interest> interests{{.socket = to, .wants_read = true}};
        posix_net().wait(&interests, 2000);
        CHECK(to->receive(&got, 1) == 1);
        CHECK(got == sent);
      }
    }
  }
}

void check_exchange(const Worlds& worlds, int times) {
  const auto endings = on_each(worlds, [&](size_t i) {
    for (int k = 0; k < times; ++k) {
      const auto value = [&](size_t p) { return std::to_string(p) + ":" + std::to_string(k); };
      const auto values = worlds[i]->exchange("step", value(i), 10'000);
      for (size_t p = 0; p < worlds.size(); ++p) {
        if (values.at(p) != value(p)) throw Error("invariant", "another value").with("got", k);
      }
    }
  });
  for (const Ending& ending : endings) CHECK(ending.word == "");
}

void leave_all(const Worlds& worlds) {
  for (const Ending& ending : on_each(worlds, [&](size_t i) { worlds[i]->leave(5000); })) {
    CHECK(ending.word == "");
    CHECK(ending.took_ms < 4000);
  }
  for (const auto& world : worlds) CHECK_FALSE(world->fabric().is_aborted());
}

}  // namespace

TEST_CASE("a world of one process is complete at once", "[world]") {
  const Held before = held_now();
  const auto world = World::create(world_options(4, 0, 4), posix_env(), posix_net());
  CHECK(world->is_complete());
  CHECK(held_now() == before);
  REQUIRE(world->peers().size() == 1);
  CHECK(world->own_peer() == 0);
  const std::string card = world->card();
  CHECK(card.size() > 8);
  CHECK(card.size() <= 4096);
  world->add_card(card);
  world->commit(1000);
  world->join_tcp("nowhere.invalid:1", 1000);
  CHECK(world->exchange("step", "mine", 1000) == std::vector<std::string>{"mine"});
  world->leave(1000);
  const auto other = World::create(world_options(4, 0, 4), posix_env(), posix_net());
  CHECK_THROWS_WITH(world->add_card(other->card()), Catch::Matchers::StartsWith("topology: "));
  CHECK_FALSE(world->verdict(0));
  world->abort(Error("stalled", "enough").rank(2));
  REQUIRE(world->verdict(0));
  CHECK(world->verdict(0)->word() == "stalled");
  CHECK_THROWS_WITH(world->exchange("step", "", 1000), Catch::Matchers::StartsWith("stalled: "));
}

TEST_CASE("ranks must lie in the world", "[world]") {
  const int64_t shapes[][3] = {{0, 0, 1}, {4, -1, 1}, {4, 4, 1}, {4, 3, 2}, {4, 0, 0}, {4, 0, 5}};
  for (const auto& [world, first, count] : shapes) {
    CHECK_THROWS_WITH(World::create(world_options(world, first, count), posix_env(), posix_net()),
                      Catch::Matchers::StartsWith("topology: "));
  }
}

TEST_CASE("processes meet by TCP, in any order, and leave nothing behind", "[world]") {
  const Held before = held_now();
  {
    const Worlds worlds = complete_worlds({1, 2, 1, 3});
    check_complete(worlds);
    check_exchange(worlds, 200);
    leave_all(worlds);
  }
  CHECK(held_now(&before) == before);
  // The process of rank 0 comes last.
  const Worlds late =
      make_worlds({world_options(3, 0, 1), world_options(3, 1, 1), world_options(3, 2, 1)});
  const std::string address = free_address();
  const auto endings = on_each(late, [&](size_t i) {
    if (i == 0) sleep_ms(300);
    late[i]->join_tcp(address, 20'000);
  });
  for (const Ending& ending : endings) REQUIRE(ending.word == "");
  check_exchange(late, 3);
}

TEST_CASE("processes meet by cards", "[world]") {
  const Held before = held_now();
  {
    const Worlds worlds =
        make_worlds({world_options(5, 3, 2), world_options(5, 0, 2), world_options(5, 2, 1)});
    std::vector<std::string> cards;
    for (const auto& world : worlds) cards.push_back(world->card());
    for (size_t i = 0; i < worlds.size(); ++i) {
      CHECK(worlds[i]->card() == cards[i]);
      CHECK(cards[i].size() <= 4096);
      for (size_t j = 0; j < cards.size(); ++j) worlds[i]->add_card(cards[(i + j) % 3]);
    }
    const auto endings = on_each(worlds, [&](size_t i) {
      sleep_ms(static_cast<int64_t>(i) * 100);
      worlds[i]->commit(20'000);
    });
    for (const Ending& ending : endings) REQUIRE(ending.word == "");
    const auto values = [&](size_t i) {
      const auto all = worlds[i]->exchange("cards", std::to_string(i), 10'000);
      if (all != std::vector<std::string>{"1", "2", "0"}) throw Error("invariant", "order");
    };
    for (const Ending& ending : on_each(worlds, values)) CHECK(ending.word == "");
  }
  CHECK(held_now(&before) == before);
}

TEST_CASE("processes meet by a store of the host", "[world]") {
  const Worlds worlds =
      make_worlds({world_options(6, 0, 3), world_options(6, 3, 1), world_options(6, 4, 2)});
  MemoryStore store;
  const auto endings = on_each(worlds, [&](size_t i) {
    sleep_ms(static_cast<int64_t>(2 - i) * 100);
    worlds[i]->join_kv(store, 20'000);
  });
  for (const Ending& ending : endings) REQUIRE(ending.word == "");
  check_complete(worlds);
  check_exchange(worlds, 3);
  std::string value;
  CHECK(store.get("plait/6/card/5", 1, &value));
  leave_all(worlds);
}

TEST_CASE("an exchange carries large values", "[world]") {
  const Worlds worlds = complete_worlds({1, 1, 1});
  const auto endings = on_each(worlds, [&](size_t i) {
    const auto values = worlds[i]->exchange("large", std::string(3'000'000 + i, 'x'), 20'000);
    for (size_t p = 0; p < 3; ++p) {
      if (values.at(p) != std::string(3'000'000 + p, 'x')) throw Error("invariant", "value");
    }
  });
  for (const Ending& ending : endings) CHECK(ending.word == "");
  CHECK_THROWS_WITH(worlds[0]->exchange("huge", std::string((64 << 20) + 1, 'x'), 1000),
                    Catch::Matchers::StartsWith("too_large: "));
}

TEST_CASE("two worlds in one process do not see each other", "[world]") {
  const Worlds first = complete_worlds({1, 1}), second = complete_worlds({1, 1});
  check_exchange(first, 3);
  first[0]->abort(Error("io_error", "only here"));
  REQUIRE(await_abort(*first[1]));
  check_exchange(second, 3);
  CHECK_FALSE(second[0]->fabric().is_aborted());
}

}  // namespace plait::test
