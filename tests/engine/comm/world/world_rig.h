// Worlds of several processes in one: each is a World of its own, driven by a thread of its own,
// over real sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/world.h"
#include "kernels/base/env.h"
#include "kernels/base/net.h"

namespace plait::test {

/// A network that stands still on demand: as for a stopped process, its kernel still answers.
class PausableNet final : public Net {
 public:
  std::unique_ptr<Listener> listen(const std::string& address) override {
    return posix_net().listen(address);
  }
  std::unique_ptr<Socket> connect(const std::string& address, int64_t timeout_ms) override {
    return posix_net().connect(address, timeout_ms);
  }
  std::unique_ptr<Socket> start_connect(const std::string& address) override {
    return posix_net().start_connect(address);
  }
  std::unique_ptr<Waker> make_waker() override { return posix_net().make_waker(); }
  void wait(std::vector<Interest>* interests, int64_t timeout_ms) override;
  std::string host_address() override { return posix_net().host_address(); }
  std::string host_name() override { return posix_net().host_name(); }
  int64_t process_id() override { return posix_net().process_id(); }

  std::atomic<bool> is_paused{false};
};

/// Ranks [first, first + count) of `world`, with short limits.
WorldOptions world_options(int64_t world, int64_t first, int64_t count);

/// "127.0.0.1:port" with a port that is free at present.
std::string free_address();

/// What one process of a run ended with.
struct Ending {
  std::string word;  ///< "" for none
  Error error{"aborted", ""};
  int64_t took_ms = 0;
};

/// Runs each body in a thread; what it throws is its ending.
std::vector<Ending> run_each(const std::vector<std::function<void()>>& bodies);

using Worlds = std::vector<std::unique_ptr<World>>;

/// One World for each of the options, not yet joined.
Worlds make_worlds(const std::vector<WorldOptions>& options, Net& net = posix_net());
/// All of them join by TCP at a free address.
std::vector<Ending> join_all(const Worlds& worlds, int64_t timeout_ms = 20'000);
/// Processes with these numbers of ranks, complete. Fails the test otherwise.
Worlds complete_worlds(const std::vector<int64_t>& ranks,
                       const std::function<void(WorldOptions*)>& change = {});

/// Runs body(index) for each world at once.
std::vector<Ending> on_each(const Worlds& worlds, const std::function<void(size_t)>& body);

/// Waits until the fabric of `world` is aborted; its error.
std::optional<Error> await_abort(World& world, int64_t timeout_ms = 5000);

/// Open descriptors and running threads of this process.
struct Held {
  int64_t descriptors = 0;
  int64_t threads = 0;
  bool operator==(const Held&) const = default;
};
/// Waits shortly for `want`, because threads that have ended may still be listed.
Held held_now(const Held* want = nullptr);

int64_t now_ms();
void sleep_ms(int64_t ms);
bool has(const std::string& text, const std::string& part);

/// A store in memory, as a host's.
class MemoryStore final : public KeyValueStore {
 public:
  MemoryStore();
  ~MemoryStore() override;
  void put(const std::string& key, const std::string& value) override;
  bool get(const std::string& key, int64_t timeout_ms, std::string* value) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plait::test
