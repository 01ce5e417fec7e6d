// N control channels in one thread and in virtual time, from one 64-bit seed: latency, loss of
// connections, partitions, pauses, kills, damaged frames, reordering across connections. The frames
// are real, the sockets are not. Each process makes calls and saves beside one another.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "engine/comm/control.h"
#include "engine/comm/frame.h"

namespace plait::test {

/// splitmix64.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(0, 99) < percent; }

 private:
  uint64_t state_;
};

class ControlSim {
 public:
  static constexpr int64_t kMs = 1'000'000;
  static constexpr int64_t kHeartbeatNs = 1000 * kMs, kFrozenNs = 5000 * kMs;
  static constexpr int64_t kSettleNs = 500 * kMs, kDesyncNs = 2000 * kMs;

  explicit ControlSim(uint64_t seed, bool is_tracing = false);
  /// Runs to the end. What is wrong, or "".
  std::string run();

 private:
  struct Call {
    std::string name, value;
    int64_t deadline_ns = 0;
    std::string outcome;  // "", "ok" or the word
    std::vector<std::string> values;
  };
  /// The exchanges of one stream, one after the other.
  struct Line {
    std::vector<Call> calls;
    bool is_calling = false, is_finished = false;
  };
  struct Process {
    std::unique_ptr<Control> control;
    std::vector<std::unique_ptr<FrameReader>> readers;
    std::vector<uint64_t> sequences;
    bool is_dead = false;
    int64_t paused_until_ns = 0;
    bool is_catching_up = false;               // with what came while it was stopped
    std::vector<std::function<void()>> inbox;  // while paused
    std::array<Line, kExchangeStreams> lines;
    bool is_done = false, has_left = false;
    bool is_calling() const { return lines[0].is_calling || lines[1].is_calling; }
    int64_t paused_ns = 0;  // in all
    std::optional<Error> verdict;
  };
  struct Wire {
    int64_t last_ns = 0;  // arrival of what was sent last
    int64_t held_until_ns = 0;
    bool is_broken = false;
    uint64_t generation = 0;  // what is under way when it breaks is lost
    int slowness = 1;
  };
  struct Event {
    int64_t at_ns;
    uint64_t order;
    std::function<void()> action;
    bool operator<(const Event& other) const {
      return std::tie(at_ns, order) > std::tie(other.at_ns, other.order);
    }
  };

  void at(int64_t time_ns, std::function<void()> action);
  void plan();
  void plan_fault(int kind, int64_t when_ns);
  void tick(size_t p);
  void work(size_t p, ExchangeStream stream);
  void next_call(size_t p, ExchangeStream stream);
  void take_results(size_t p);
  void after(size_t p);
  void send(size_t from, const Letter& letter);
  void deliver(size_t from, size_t to, const std::string& bytes);
  void arrive(size_t to, std::function<void()> action);
  void close_wire(size_t from, size_t to);
  void kill(size_t p, int how);
  void pause(size_t p, int64_t duration_ns);
  void resume(size_t p);
  void part(const std::set<size_t>& side, int64_t duration_ns);
  void reset(size_t a, size_t b);
  std::string check() const;
  std::string check_exchanges() const;
  std::string check_agreement() const;
  std::string check_single_fault() const;
  void trace(const std::string& line) const;
  Wire& wire(size_t from, size_t to) { return wires_[from * processes_.size() + to]; }

  const uint64_t seed_;
  Dice dice_;
  const bool is_tracing_;
  int64_t now_ns_ = kMs;
  uint64_t orders_ = 0;
  ControlOptions options_;
  std::vector<Process> processes_;
  std::vector<Wire> wires_;
  std::priority_queue<Event> events_;
  int64_t calls_each_ = 0;
  int wrong_percent_ = 0;
  bool has_flip_ = false;
  std::set<std::pair<size_t, size_t>> cut_;  // pairs that were ever apart
  std::vector<std::string> faults_;
  std::optional<size_t> only_killed_;
  std::string problem_;
};

}  // namespace plait::test
