// Real processes and real signals: each world in a process of its own.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/engine/comm/world/world_rig.h"

namespace plait::test {
namespace {

/// Forked children, each with one rank of a world; each tells lines of text.
class Children {
 public:
  /// A child runs `body` on its complete world; what it returns, or the message of what it throws,
  /// is its last line. The parent has one thread.
  Children(int64_t count, const std::function<std::string(World&)>& body,
           const std::function<void(WorldOptions*)>& change = {}) {
    const std::string address = free_address();
    for (int64_t rank = 0; rank < count; ++rank) {
      int ends[2];
      REQUIRE(pipe(ends) == 0);
      const pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        close(ends[0]);
        WorldOptions options = world_options(count, rank, 1);
        if (change) change(&options);
        run(options, address, ends[1], body);
        _exit(0);
      }
      close(ends[1]);
      pids_.push_back(pid);
      pipes_.push_back(ends[0]);
    }
    for (size_t rank = 0; rank < pids_.size(); ++rank) REQUIRE(line(rank, 20'000) == "complete");
  }
  ~Children() {
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      kill(pids_[rank], SIGKILL);
      waitpid(pids_[rank], nullptr, 0);
      close(pipes_[rank]);
    }
  }

  void signal(size_t rank, int number) { REQUIRE(kill(pids_[rank], number) == 0); }
  /// The next line of a child, or what is wrong.
  std::string line(size_t rank, int64_t timeout_ms) {
    std::string text;
    const int64_t until = now_ms() + timeout_ms;
    for (char byte = 0; now_ms() < until;) {
      pollfd one{pipes_[rank], POLLIN, 0};
      if (poll(&one, 1, 10) <= 0) continue;
      if (read(pipes_[rank], &byte, 1) != 1) return text + " (end)";
      if (byte == '\n') return text;
      text += byte;
    }
    return text + " (nothing more)";
  }

 private:
  static void tell(int pipe, std::string text) {
    text += '\n';
    if (write(pipe, text.data(), text.size()) < 0) _exit(1);
  }
  static void run(const WorldOptions& options, const std::string& address, int pipe,
                  const std::function<std::string(World&)>& body) {
    try {
      const auto world = World::create(options, posix_env(), posix_net());
      world->join_tcp(address, 20'000);
      tell(pipe, "complete");
      tell(pipe, body(*world));
    } catch (const Error& error) {
      tell(pipe, error.message());
    }
  }

  std::vector<pid_t> pids_;
  std::vector<int> pipes_;
};

/// Steps until something ends it.
std::string step_on(World& world) {
  for (;;) world.exchange("step", "", 20'000);
}

}  // namespace

TEST_CASE("R1, R11: kill -9 of a process is known to all others within a second", "[process]") {
  for (const size_t victim : {0, 1, 2}) {
    Children children(3, step_on);
    sleep_ms(100);
    const int64_t begin = now_ms();
    children.signal(victim, SIGKILL);
    for (size_t rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const std::string line = children.line(rank, 5000);
      INFO(line);
      CHECK(has(line, "peer_lost: "));
      CHECK(has(line, "rank=" + std::to_string(victim) + " "));
      CHECK(now_ms() - begin < 1000);
    }
  }
}

TEST_CASE("R2: a stopped process is frozen for the others, and fenced when it goes on",
          "[process]") {
  const auto change = [](WorldOptions* options) {
    options->heartbeat_ms = 150;
    options->frozen_ms = 800;
  };
  Children children(3, step_on, change);
  sleep_ms(100);
  const int64_t begin = now_ms();
  children.signal(1, SIGSTOP);
  for (const size_t rank : {0, 2}) {
    const std::string line = children.line(rank, 5000);
    INFO(line);
    CHECK(has(line, "peer_frozen: "));
    CHECK(has(line, "rank=1 "));
    CHECK(now_ms() - begin < 1800);
    CHECK(now_ms() - begin >= 600);
  }
  sleep_ms(500);
  children.signal(1, SIGCONT);
  const std::string line = children.line(1, 5000);
  INFO(line);
  CHECK(has(line, "fenced: "));
}

TEST_CASE("H2: a process that exits without leaving is lost, one that leaves is not", "[process]") {
  Children children(3, [](World& world) -> std::string {
    if (world.options().first_rank == 2) return "gone";  // its world ends without leave
    return step_on(world);
  });
  CHECK(children.line(2, 5000) == "gone");
  for (const size_t rank : {0, 1}) CHECK(has(children.line(rank, 5000), "peer_lost: "));
  Children orderly(3, [](World& world) -> std::string {
    world.exchange("step", "", 20'000);
    world.leave(5000);
    return world.fabric().is_aborted() ? "aborted" : "left";
  });
  for (const size_t rank : {0, 1, 2}) CHECK(orderly.line(rank, 8000) == "left");
}

}  // namespace plait::test
