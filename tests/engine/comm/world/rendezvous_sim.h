// N processes that meet, in one thread and in virtual time, from one seed: late starts, latency,
// resets, kills, strangers, wrong tokens, clashes, processes that never come.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "engine/comm/rendezvous.h"
#include "tests/engine/comm/world/control_sim.h"

namespace plait::test {

class RendezvousSim {
 public:
  static constexpr int64_t kMs = 1'000'000;
  explicit RendezvousSim(uint64_t seed, bool is_tracing = false);
  /// What is wrong, or "".
  std::string run();

 private:
  class DiceEntropy final : public Entropy {
   public:
    explicit DiceEntropy(uint64_t seed) : dice_(seed) {}
    uint64_t next() override { return dice_.next(); }

   private:
    Dice dice_;
  };
  /// One end of a connection.
  struct End {
    int process = -1;  // −1: a stranger
    int64_t number = 0;
    std::unique_ptr<FrameReader> reader = std::make_unique<FrameReader>(1u << 20);
    uint64_t sequence = 0;
    bool is_closed = false;
  };
  struct Line {
    End ends[2];
    int64_t last_ns[2] = {0, 0};  // arrival of what was sent last towards each end
  };
  struct Process {
    Card card;
    std::string token = "t";
    int64_t start_ns = 0, deadline_ns = 0;
    std::unique_ptr<DiceEntropy> entropy;
    std::unique_ptr<Rendezvous> meeting;
    std::map<int64_t, std::pair<size_t, int>> lines;  // by number: line and end
    bool is_dead = false;
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
  void start(int p);
  void act(int p);
  void connect(int p, const RendezvousAction& action);
  void send(size_t line, int from, const std::string& bytes);
  void deliver(size_t line, int to, const std::string& bytes);
  void close(size_t line, int end);
  void tick(int p);
  void kill(int p);
  void disturb(int p);
  int listener_of(const std::string& address) const;
  int64_t latency() { return dice_.between(50, 30'000) * 1000; }
  std::string check() const;
  void trace(const std::string& line) const;

  Dice dice_;
  const bool is_tracing_;
  int64_t now_ns_ = 0;
  uint64_t orders_ = 0;
  bool has_store_ = true;
  std::vector<Process> processes_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::priority_queue<Event> events_;
  std::vector<std::string> faults_;
  std::string expected_;  // word, where the plan has one outcome for all
  int wrong_token_ = -1;
  bool has_kill_ = false;
};

}  // namespace plait::test
