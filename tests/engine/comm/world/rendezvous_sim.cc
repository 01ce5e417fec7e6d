#include "tests/engine/comm/world/rendezvous_sim.h"

#include <algorithm>
#include <cstdio>

namespace plait::test {
namespace {

constexpr int64_t kLimitNs = 10'000 * RendezvousSim::kMs;
const char* const kStore = "10.1.0.1:1";

}  // namespace

RendezvousSim::RendezvousSim(uint64_t seed, bool is_tracing)
    : dice_(seed), is_tracing_(is_tracing) {
  plan();
}

void RendezvousSim::at(int64_t time_ns, std::function<void()> action) {
  events_.push({time_ns, orders_++, std::move(action)});
}

void RendezvousSim::trace(const std::string& line) const {
  if (is_tracing_) std::printf("%10.3f ms  %s\n", double(now_ns_) / kMs, line.c_str());
}

void RendezvousSim::plan() {
  const auto count = static_cast<int>(dice_.between(2, 6));
  has_store_ = dice_.chance(60);
  int64_t rank = 0;
  for (int p = 0; p < count; ++p) {
    Process one;
    one.card.version = 1;
    one.card.first_rank = rank;
    one.card.local_ranks = dice_.between(1, 3);
    one.card.nonce = dice_.next() | 1;
    one.card.host = "host";
    one.card.pid = p;
    one.card.addresses = {"10.0.0." + std::to_string(p) + ":1"};
    one.start_ns = dice_.between(0, 3000) * kMs;
    one.deadline_ns = kLimitNs + one.start_ns;
    one.entropy = std::make_unique<DiceEntropy>(dice_.next());
    rank += one.card.local_ranks;
    processes_.push_back(std::move(one));
  }
  for (Process& one : processes_) one.card.world = rank;
  const auto victim = static_cast<int>(dice_.between(0, count - 1));
  const auto other = static_cast<int>(dice_.between(1, count - 1));
  const int64_t fault = dice_.between(0, 9);
  if (fault == 1) {
    faults_ = {"kill"};
    has_kill_ = true;
    at(dice_.between(0, 4000) * kMs, [this, victim] { kill(victim); });
  } else if (fault == 2) {
    faults_ = {"never comes"};
    expected_ = "missing_ranks";
    processes_[static_cast<size_t>(victim)].is_dead = true;
  } else if (fault == 3) {
    faults_ = {"wrong token"};
    wrong_token_ = other;
    processes_[static_cast<size_t>(other)].token = "x";
  } else if (fault == 4 && has_store_) {
    faults_ = {"another version"};
    expected_ = "version_mismatch";
    processes_[static_cast<size_t>(other)].card.version = 2;
  } else if (fault == 5 && has_store_) {
    faults_ = {"another world"};
    expected_ = "topology";
    ++processes_[static_cast<size_t>(other)].card.world;
  } else if (fault == 6) {
    faults_ = {"strangers"};
    for (int i = 0; i < 20; ++i) {
      at(dice_.between(0, 4000) * kMs, [this, victim] { disturb(victim); });
    }
  }
  for (int p = 0; p < count; ++p) {
    // After a disagreement the store stays for two seconds.
    int64_t& start_ns = processes_[static_cast<size_t>(p)].start_ns;
    if (expected_ == "topology" || expected_ == "version_mismatch") start_ns /= 2;
    at(start_ns, [this, p] { start(p); });
  }
}

void RendezvousSim::start(int p) {
  Process& one = processes_[static_cast<size_t>(p)];
  if (one.is_dead) return;
  trace(std::to_string(p) + " starts");
  RendezvousOptions options{one.token, has_store_ ? kStore : "", one.deadline_ns, 1000 * kMs};
  CardSet cards(one.card);
  if (!has_store_) {
    for (const Process& other : processes_) cards.add(other.card);
  }
  one.meeting =
      std::make_unique<Rendezvous>(std::move(options), std::move(cards), *one.entropy, now_ns_);
  act(p);
  tick(p);
}

void RendezvousSim::tick(int p) {
  Process& one = processes_[static_cast<size_t>(p)];
  if (one.is_dead || one.meeting->state() != Rendezvous::State::kRunning) return;
  one.meeting->time(now_ns_);
  act(p);
  at(now_ns_ + 20 * kMs, [this, p] { tick(p); });
}

int RendezvousSim::listener_of(const std::string& address) const {
  if (address == kStore) return 0;
  for (size_t p = 0; p < processes_.size(); ++p) {
    if (processes_[p].card.addresses[0] == address) return static_cast<int>(p);
  }
  return -1;
}

void RendezvousSim::act(int p) {
  Process& one = processes_[static_cast<size_t>(p)];
  const auto before = one.meeting->state();
  for (auto actions = one.meeting->take_actions(); !actions.empty();
       actions = one.meeting->take_actions()) {
    for (const RendezvousAction& action : actions) {
      if (action.kind == RendezvousAction::Kind::kConnect) {
        connect(p, action);
        continue;
      }
      const auto found = one.lines.find(action.connection);
      if (found == one.lines.end()) continue;
      const auto [line, end] = found->second;
      if (action.kind == RendezvousAction::Kind::kClose) {
        close(line, end);
        continue;
      }
      End& from = lines_[line]->ends[end];
      send(line, end, encode_frame({action.frame, 0, from.sequence++, action.body}));
    }
  }
  if (before == Rendezvous::State::kFailed) {
    trace(std::to_string(p) + " fails: " + one.meeting->error().message());
    std::vector<std::pair<size_t, int>> all;
    for (const auto& [number, place] : one.lines) all.push_back(place);
    for (const auto& [line, end] : all) close(line, end);
  }
}

void RendezvousSim::connect(int p, const RendezvousAction& action) {
  const int64_t number = action.connection;
  const std::string address = action.address;
  at(now_ns_ + latency(), [this, p, number, address] {
    Process& one = processes_[static_cast<size_t>(p)];
    if (one.is_dead || one.meeting->state() != Rendezvous::State::kRunning) return;
    const int q = listener_of(address);
    Process* const there = q < 0 ? nullptr : &processes_[static_cast<size_t>(q)];
    const bool is_there = there != nullptr && !there->is_dead && there->meeting != nullptr &&
                          there->meeting->state() == Rendezvous::State::kRunning;
    if (!is_there || dice_.chance(5)) {
      one.meeting->closed(number, now_ns_);
      return act(p);
    }
    const size_t line = lines_.size();
    lines_.push_back(std::make_unique<Line>());
    lines_[line]->ends[0].process = p;
    lines_[line]->ends[0].number = number;
    lines_[line]->ends[1].process = q;
    lines_[line]->ends[1].number =
        there->meeting->accepted("10.0.0." + std::to_string(p) + ":9", now_ns_);
    one.lines[number] = {line, 0};
    there->lines[lines_[line]->ends[1].number] = {line, 1};
    one.meeting->connected(number, address);
    act(q);
    act(p);
  });
}

void RendezvousSim::send(size_t line, int from, const std::string& bytes) {
  const int to = 1 - from;
  Line& one = *lines_[line];
  if (one.ends[from].is_closed) return;
  one.last_ns[to] = std::max(one.last_ns[to] + 1, now_ns_ + latency());
  at(one.last_ns[to], [this, line, to, bytes] { deliver(line, to, bytes); });
}

void RendezvousSim::deliver(size_t line, int to, const std::string& bytes) {
  End& end = lines_[line]->ends[to];
  if (end.is_closed || end.process < 0) return;
  Process& one = processes_[static_cast<size_t>(end.process)];
  if (one.is_dead) return;
  end.reader->add(bytes);
  Frame frame;
  while (one.meeting->state() == Rendezvous::State::kRunning && end.reader->next(&frame)) {
    one.meeting->received(end.number, frame, now_ns_);
  }
  if (end.reader->fault() != FrameFault::kNone) {
    one.meeting->garbled(end.number, end.reader->fault(), now_ns_);
  }
  act(end.process);
}

void RendezvousSim::close(size_t line, int end) {
  Line& one = *lines_[line];
  if (one.ends[end].is_closed) return;
  one.ends[end].is_closed = true;
  if (one.ends[end].process >= 0) {
    processes_[static_cast<size_t>(one.ends[end].process)].lines.erase(one.ends[end].number);
  }
  const int other = 1 - end;
  one.last_ns[other] = std::max(one.last_ns[other] + 1, now_ns_ + latency());
  at(one.last_ns[other], [this, line, other] {
    End& there = lines_[line]->ends[other];
    if (there.is_closed || there.process < 0) return;
    there.is_closed = true;
    Process& process = processes_[static_cast<size_t>(there.process)];
    process.lines.erase(there.number);
    if (process.is_dead || process.meeting->state() != Rendezvous::State::kRunning) return;
    process.meeting->closed(there.number, now_ns_);
    act(there.process);
  });
}

void RendezvousSim::kill(int p) {
  Process& one = processes_[static_cast<size_t>(p)];
  if (one.is_dead) return;
  trace(std::to_string(p) + " is killed");
  one.is_dead = true;
  std::vector<std::pair<size_t, int>> all;
  for (const auto& [number, place] : one.lines) all.push_back(place);
  for (const auto& [line, end] : all) close(line, end);
}

void RendezvousSim::disturb(int p) {
  Process& one = processes_[static_cast<size_t>(p)];
  if (one.is_dead || one.meeting == nullptr) return;
  if (one.meeting->state() != Rendezvous::State::kRunning) return;
  const size_t line = lines_.size();
  lines_.push_back(std::make_unique<Line>());
  End& end = lines_[line]->ends[1];
  end.process = p;
  end.number = one.meeting->accepted("10.9.9.9:9", now_ns_);
  one.lines[end.number] = {line, 1};
  act(p);
  std::string bytes;
  const auto kind = static_cast<FrameKind>(dice_.between(1, int64_t(kLastFrameKind)));
  for (int64_t i = dice_.between(0, 80); i > 0; --i) bytes += static_cast<char>(dice_.next());
  if (dice_.chance(70)) bytes = encode_frame({kind, 0, 0, bytes});
  send(line, 0, bytes);
  if (dice_.chance(50)) close(line, 0);
}

std::string RendezvousSim::run() {
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ns_ = event.at_ns;
    if (now_ns_ > kLimitNs + 5000 * kMs) break;
    event.action();
  }
  const std::string problem = check();
  if (problem.empty()) return "";
  return problem + " [" + std::to_string(processes_.size()) + " processes, " +
         (has_store_ ? "store" : "cards") + (faults_.empty() ? "" : ", " + faults_[0]) + "]";
}

std::string RendezvousSim::check() const {
  int complete = 0, failed = 0;
  std::string word;
  for (size_t p = 0; p < processes_.size(); ++p) {
    const Process& one = processes_[p];
    if (one.is_dead) continue;
    const std::string name = "process " + std::to_string(p);
    if (one.meeting->state() == Rendezvous::State::kRunning) return name + " has no result";
    if (one.meeting->state() == Rendezvous::State::kComplete) {
      ++complete;
      if (!one.meeting->cards().is_complete()) return name + " misses cards";
      for (size_t q = 0; q < processes_.size(); ++q) {
        if (q == p) continue;
        const int64_t control = one.meeting->connection(q, Purpose::kControl);
        const int64_t data = one.meeting->connection(q, Purpose::kData);
        if (control < 0 || data < 0 || control == data) return name + " misses a connection";
      }
      continue;
    }
    ++failed;
    const Error& error = one.meeting->error();
    if (static_cast<int>(p) == wrong_token_) {
      if (error.word() != "token") return name + " should learn that its token is wrong";
      continue;
    }
    if (!expected_.empty() && error.word() != expected_) {
      return name + " ends with " + error.message();
    }
    if (wrong_token_ >= 0 && error.word() != "missing_ranks") {
      return name + " ends with " + error.message();
    }
    if (has_kill_ && error.word() != "peer_lost" && error.word() != "missing_ranks") {
      return name + " ends with " + error.message();
    }
  }
  const bool may_fail = has_kill_ || !expected_.empty() || wrong_token_ >= 0;
  if (!may_fail && failed > 0) return "a meeting without a fault fails";
  if (!expected_.empty() && complete > 0) return "a meeting completes that must not";
  if (wrong_token_ >= 0 && complete > 0) return "a meeting completes without a member";
  return "";
}

}  // namespace plait::test
