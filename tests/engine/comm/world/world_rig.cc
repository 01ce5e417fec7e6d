#include "tests/engine/comm/world/world_rig.h"

#include <dirent.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace plait::test {
namespace {

int64_t count_entries(const char* directory) {
  int64_t count = 0;
  DIR* const stream = opendir(directory);
  if (stream == nullptr) return 0;
  while (readdir(stream) != nullptr) ++count;
  closedir(stream);
  return count;
}

}  // namespace

void PausableNet::wait(std::vector<Interest>* interests, int64_t timeout_ms) {
  while (is_paused.load()) sleep_ms(1);
  posix_net().wait(interests, timeout_ms);
}

WorldOptions world_options(int64_t world, int64_t first, int64_t count) {
  WorldOptions options;
  options.world = world;
  options.first_rank = first;
  options.local_ranks = count;
  options.version = 1000;
  options.token = "secret";
  return options;
}

std::string free_address() { return posix_net().listen("127.0.0.1:0")->address(); }

std::vector<Ending> run_each(const std::vector<std::function<void()>>& bodies) {
  std::vector<Ending> endings(bodies.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < bodies.size(); ++i) {
    threads.emplace_back([&, i] {
      const int64_t begin = now_ms();
      try {
        bodies[i]();
      } catch (const Error& error) {
        endings[i].word = error.word();
        endings[i].error = error;
      } catch (const std::exception& error) {
        endings[i].word = error.what();
      }
      endings[i].took_ms = now_ms() - begin;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return endings;
}

Worlds make_worlds(const std::vector<WorldOptions>& options, Net& net) {
  Worlds worlds;
  for (const WorldOptions& one : options) worlds.push_back(World::create(one, posix_env(), net));
  return worlds;
}

std::vector<Ending> on_each(const Worlds& worlds, const std::function<void(size_t)>& body) {
  std::vector<std::function<void()>> bodies;
  for (size_t i = 0; i < worlds.size(); ++i) bodies.push_back([&body, i] { body(i); });
  return run_each(bodies);
}

std::vector<Ending> join_all(const Worlds& worlds, int64_t timeout_ms) {
  const std::string address = free_address();
  return on_each(worlds, [&](size_t i) { worlds[i]->join_tcp(address, timeout_ms); });
}

Worlds complete_worlds(const std::vector<int64_t>& ranks,
                       const std::function<void(WorldOptions*)>& change) {
  int64_t world = 0, first = 0;
  for (const int64_t count : ranks) world += count;
  std::vector<WorldOptions> options;
  for (const int64_t count : ranks) {
    options.push_back(world_options(world, first, count));
    if (change) change(&options.back());
    first += count;
  }
  Worlds worlds = make_worlds(options);
  for (const Ending& ending : join_all(worlds)) REQUIRE(ending.error.message() == "aborted: ");
  return worlds;
}

std::optional<Error> await_abort(World& world, int64_t timeout_ms) {
  const int64_t until = now_ms() + timeout_ms;
  while (!world.fabric().is_aborted() && now_ms() < until) sleep_ms(1);
  return world.fabric().abort_error();
}

Held held_now(const Held* want) {
  Held held;
  for (int i = 0; i < 500; ++i) {
    held = {count_entries("/proc/self/fd"), count_entries("/proc/self/task")};
    if (want == nullptr || held == *want) break;
    sleep_ms(2);
  }
  return held;
}

int64_t now_ms() { return posix_env().clock.now_ns() / 1'000'000; }

void sleep_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct MemoryStore::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
};

MemoryStore::MemoryStore() : state_(std::make_unique<State>()) {}
MemoryStore::~MemoryStore() = default;

void MemoryStore::put(const std::string& key, const std::string& value) {
  const std::lock_guard lock(state_->mutex);
  state_->values[key] = value;
  state_->changed.notify_all();
}

bool MemoryStore::get(const std::string& key, int64_t timeout_ms, std::string* value) {
  std::unique_lock lock(state_->mutex);
  const bool is_there = state_->changed.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                                                 [&] { return state_->values.count(key) != 0; });
  if (is_there) *value = state_->values[key];
  return is_there;
}

}  // namespace plait::test
