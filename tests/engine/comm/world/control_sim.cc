#include "tests/engine/comm/world/control_sim.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

namespace plait::test {
namespace {

constexpr int64_t kEndNs = 90'000 * ControlSim::kMs;
constexpr uint32_t kLimit = 1u << 20;
constexpr std::array kStreams = {ExchangeStream::kCalls, ExchangeStream::kSaves};

}  // namespace

ControlSim::ControlSim(uint64_t seed, bool is_tracing)
    : seed_(seed), dice_(seed), is_tracing_(is_tracing) {
  const auto count = static_cast<size_t>(dice_.between(2, 6));
  int64_t rank = 0;
  for (size_t p = 0; p < count; ++p) {
    const int64_t ranks = dice_.between(1, 3);
    options_.peers.push_back({rank, ranks, "host", static_cast<int64_t>(p)});
    rank += ranks;
  }
  options_.heartbeat_ns = kHeartbeatNs;
  options_.frozen_ns = kFrozenNs;
  options_.settle_ns = kSettleNs;
  options_.desync_ns = kDesyncNs;
  processes_ = std::vector<Process>(count);
  wires_ = std::vector<Wire>(count * count);
  for (size_t p = 0; p < count; ++p) {
    Process& one = processes_[p];
    options_.own = p;
    one.control = std::make_unique<Control>(options_, now_ns_);
    one.sequences.resize(count);
    for (size_t q = 0; q < count; ++q) one.readers.push_back(std::make_unique<FrameReader>(kLimit));
    at(now_ns_ + dice_.between(0, 50) * kMs, [this, p] { tick(p); });
    for (const ExchangeStream stream : kStreams) {
      at(now_ns_ + dice_.between(0, 500) * kMs,
         [this, p, stream] { arrive(p, [this, p, stream] { work(p, stream); }); });
    }
  }
  plan();
}

void ControlSim::at(int64_t time_ns, std::function<void()> action) {
  events_.push({time_ns, orders_++, std::move(action)});
}

void ControlSim::trace(const std::string& line) const {
  if (is_tracing_) std::printf("%10.3f ms  %s\n", double(now_ns_) / kMs, line.c_str());
}

void ControlSim::plan() {
  calls_each_ = dice_.between(1, 8);
  if (dice_.chance(20)) wrong_percent_ = 15;
  for (Wire& one : wires_) {
    if (dice_.chance(10)) one.slowness = 3;
  }
  const int64_t faults = dice_.chance(15) ? 0 : dice_.between(1, 3);
  for (int64_t i = 0; i < faults; ++i) {
    plan_fault(static_cast<int>(dice_.between(0, 9)), now_ns_ + dice_.between(0, 12'000) * kMs);
  }
}

void ControlSim::plan_fault(int kind, int64_t when_ns) {
  const auto count = static_cast<int64_t>(processes_.size());
  const auto p = static_cast<size_t>(dice_.between(0, count - 1));
  auto q = static_cast<size_t>(dice_.between(0, count - 2));
  if (q >= p) ++q;
  const int64_t span = dice_.between(10, 15'000) * kMs;
  const int how = static_cast<int>(dice_.between(0, 2));
  std::string name = "kill";
  if (kind == 0 || kind == 1) {
    at(when_ns, [this, p, how] { kill(p, how); });
    if (faults_.empty()) only_killed_ = p;
  } else if (kind == 2) {
    name = "pause";
    at(when_ns, [this, p, span] { pause(p, span); });
  } else if (kind == 3) {
    name = "partition";
    std::set<size_t> side = {p};
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (i != q && dice_.chance(40)) side.insert(i);
    }
    at(when_ns, [this, side, span] { part(side, span); });
  } else if (kind == 4) {
    name = "reset";
    at(when_ns, [this, p, q] { reset(p, q); });
  } else if (kind == 5) {
    name = "local error";
    at(when_ns, [this, p] {
      arrive(p, [this, p] {
        if (processes_[p].has_left) return;
        trace(std::to_string(p) + " fails by itself");
        processes_[p].control->abort(Error("io_error", "a local fault"), now_ns_);
        after(p);
      });
    });
  } else if (kind == 6) {
    name = "host abort";
    at(when_ns, [this, p] {
      arrive(p, [this, p] {
        if (processes_[p].has_left || processes_[p].control->verdict() != nullptr) return;
        trace(std::to_string(p) + " is aborted by its host");
        processes_[p].control->abort(Error("aborted", "by the host"), now_ns_);
        after(p);
      });
    });
  } else if (kind == 7) {
    name = "flip";
    at(when_ns, [this] { has_flip_ = true; });
  } else if (kind == 9) {
    name = "data connection lost";
    at(when_ns, [this, p, q] {
      arrive(p, [this, p, q] {
        trace(std::to_string(p) + " loses the data connection to " + std::to_string(q));
        const auto rank = static_cast<int32_t>(options_.peers[q].first_rank);
        processes_[p].control->abort(Error("peer_lost", "its data connection").rank(rank), now_ns_);
        after(p);
      });
    });
  } else {
    name = "short cut";
    at(when_ns, [this, p, span] { part({p}, span / 5); });
  }
  if (!faults_.empty() || name != "kill") only_killed_.reset();
  faults_.push_back(name);
}

std::string ControlSim::run() {
  while (!events_.empty() && problem_.empty()) {
    const Event event = events_.top();
    if (event.at_ns > kEndNs) break;
    events_.pop();
    now_ns_ = event.at_ns;
    event.action();
    const bool is_over = std::all_of(processes_.begin(), processes_.end(), [](const Process& one) {
      return one.is_dead || (one.is_done && !one.is_calling());
    });
    if (is_over) break;
  }
  std::string problem = problem_.empty() ? check() : problem_;
  if (problem.empty()) return "";
  std::string faults;
  for (const std::string& fault : faults_) faults += (faults.empty() ? "" : ", ") + fault;
  return problem + " [" + std::to_string(processes_.size()) + " processes; " + faults + "]";
}

void ControlSim::tick(size_t p) {
  if (processes_[p].is_dead) return;
  if (now_ns_ >= processes_[p].paused_until_ns) {
    after(p);
  }
  at(now_ns_ + dice_.between(40, 60) * kMs, [this, p] { tick(p); });
}

void ControlSim::arrive(size_t to, std::function<void()> action) {
  Process& one = processes_[to];
  if (one.is_dead) return;
  if (now_ns_ < one.paused_until_ns) {
    one.inbox.push_back(std::move(action));
  } else {
    action();
  }
}

void ControlSim::work(size_t p, ExchangeStream stream) {
  Process& one = processes_[p];
  if (one.is_done || one.control->verdict() != nullptr) {
    one.is_done = true;
    return;
  }
  const bool is_save = stream == ExchangeStream::kSaves;
  Line& line = one.lines[is_save ? 1 : 0];
  if (static_cast<int64_t>(line.calls.size()) >= calls_each_) {
    line.is_finished = true;
    if (!one.lines[is_save ? 0 : 1].is_finished) return;
    trace(std::to_string(p) + " leaves");
    one.has_left = true;
    one.is_done = true;
    one.control->leave(now_ns_);
    after(p);
    return;
  }
  Call call;
  call.name = dice_.chance(wrong_percent_) ? "load" : is_save ? "save" : "step";
  call.value =
      std::to_string(p) + (is_save ? " saves " : " calls ") + std::to_string(line.calls.size());
  call.deadline_ns = now_ns_ + dice_.between(200, 20'000) * kMs;
  line.is_calling = true;
  line.calls.push_back(call);
  trace(std::to_string(p) + " calls " + call.name + " " + call.value);
  one.control->begin_exchange(call.name, call.value, call.deadline_ns, now_ns_, stream);
  if (is_save && dice_.chance(10)) {  // its process gives up before its time
    at(now_ns_ + dice_.between(0, 300) * kMs, [this, p] {
      arrive(p, [this, p] {
        processes_[p].control->hurry_exchange(ExchangeStream::kSaves, now_ns_);
        after(p);
      });
    });
  }
  after(p);
}

void ControlSim::next_call(size_t p, ExchangeStream stream) {
  at(now_ns_ + dice_.between(0, dice_.chance(10) ? 3000 : 200) * kMs,
     [this, p, stream] { arrive(p, [this, p, stream] { work(p, stream); }); });
}

void ControlSim::take_results(size_t p) {
  Process& one = processes_[p];
  for (const ExchangeStream stream : kStreams) {
    std::optional<ExchangeResult> result = one.control->take_result(stream);
    if (!result) continue;
    Line& line = one.lines[static_cast<size_t>(stream)];
    if (!line.is_calling) problem_ = "a result without a call";
    line.is_calling = false;
    Call& call = line.calls.back();
    call.outcome = result->error ? result->error->word() : "ok";
    call.values = result->values;
    trace(std::to_string(p) + " ends " + call.value + ": " +
          (result->error ? result->error->message() : "ok"));
    if (call.outcome == "ok" && one.verdict) problem_ = "an exchange completes after the verdict";
    const int64_t slack = kFrozenNs + 3 * kSettleNs + 2 * kHeartbeatNs + one.paused_ns;
    if (now_ns_ > call.deadline_ns + slack) problem_ = "a call ends long after its deadline";
    next_call(p, stream);
  }
}

void ControlSim::after(size_t p) {
  Process& one = processes_[p];
  if (one.is_catching_up) return;
  one.control->time(now_ns_);  // a turn of the driver ends with it
  for (const Letter& letter : one.control->take_letters()) send(p, letter);
  take_results(p);
  if (!one.verdict && one.control->verdict() != nullptr) {
    one.verdict = *one.control->verdict();
    trace(std::to_string(p) + " verdict: " + one.verdict->message());
    if (!one.has_left) one.is_done = true;
  }
}

void ControlSim::send(size_t from, const Letter& letter) {
  Wire& one = wire(from, letter.peer);
  std::string bytes =
      encode_frame({letter.kind, 1, processes_[from].sequences[letter.peer]++, letter.body});
  if (one.is_broken) return;
  if (has_flip_ && dice_.chance(30)) {
    has_flip_ = false;
    const auto bit = static_cast<size_t>(dice_.between(0, int64_t(bytes.size()) * 8 - 1));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    trace("a bit flips from " + std::to_string(from) + " to " + std::to_string(letter.peer));
    cut_.insert({from, letter.peer});  // nothing is heard any more
    cut_.insert({letter.peer, from});
  }
  const int64_t latency = dice_.between(20, 20'000 * one.slowness) * 1000;
  one.last_ns = std::max({one.last_ns + 1, now_ns_ + latency, one.held_until_ns});
  const uint64_t generation = one.generation;
  const size_t to = letter.peer;
  at(one.last_ns, [this, from, to, generation, bytes] {
    if (wire(from, to).generation != generation) return;
    if (now_ns_ < wire(from, to).held_until_ns) {  // a partition began meanwhile
      Wire& held = wire(from, to);
      held.last_ns = std::max(held.last_ns, held.held_until_ns) + 1;
      at(held.held_until_ns + 1, [this, from, to, generation, bytes] {
        if (wire(from, to).generation == generation) deliver(from, to, bytes);
      });
      return;
    }
    deliver(from, to, bytes);
  });
}

void ControlSim::deliver(size_t from, size_t to, const std::string& bytes) {
  arrive(to, [this, from, to, bytes] {
    Process& one = processes_[to];
    FrameReader& reader = *one.readers[from];
    if (reader.fault() != FrameFault::kNone) return;
    reader.add(bytes);
    Frame frame;
    while (reader.next(&frame)) one.control->received(from, frame, now_ns_);
    if (reader.fault() != FrameFault::kNone) one.control->garbled(from, reader.fault(), now_ns_);
    after(to);
  });
}

void ControlSim::close_wire(size_t from, size_t to) {
  Wire& one = wire(from, to);
  if (one.is_broken) return;
  one.is_broken = true;
  const int64_t when =
      std::max({one.last_ns + 1, now_ns_ + dice_.between(1, 20'000) * 1000, one.held_until_ns + 2});
  at(when, [this, from, to] {
    arrive(to, [this, from, to] {
      processes_[to].control->closed(from, now_ns_);
      after(to);
    });
  });
}

void ControlSim::kill(size_t p, int how) {
  if (processes_[p].is_dead || processes_[p].is_done) return;
  trace(std::to_string(p) + " is killed, way " + std::to_string(how));
  processes_[p].is_dead = true;
  for (size_t q = 0; q < processes_.size(); ++q) {
    if (q == p) continue;
    if (how > 0) {  // what is under way is lost
      ++wire(p, q).generation;
      wire(p, q).last_ns = now_ns_;
    }
    if (how < 2) close_wire(p, q);  // else the whole machine is gone: silence
    wire(q, p).is_broken = true;
  }
}

void ControlSim::pause(size_t p, int64_t duration_ns) {
  Process& one = processes_[p];
  if (one.is_dead || now_ns_ < one.paused_until_ns) return;
  trace(std::to_string(p) + " is stopped for " + std::to_string(duration_ns / kMs) + " ms");
  one.paused_until_ns = now_ns_ + duration_ns;
  one.paused_ns += duration_ns;
  at(one.paused_until_ns, [this, p] { resume(p); });
}

void ControlSim::resume(size_t p) {
  Process& one = processes_[p];
  if (one.is_dead) return;
  trace(std::to_string(p) + " runs again");
  std::vector<std::function<void()>> inbox = std::move(one.inbox);
  one.inbox.clear();
  one.is_catching_up = true;
  for (const auto& action : inbox) action();
  one.is_catching_up = false;
  after(p);
}

void ControlSim::part(const std::set<size_t>& side, int64_t duration_ns) {
  trace("a partition for " + std::to_string(duration_ns / kMs) + " ms");
  for (size_t p = 0; p < processes_.size(); ++p) {
    for (size_t q = 0; q < processes_.size(); ++q) {
      if (side.count(p) == side.count(q)) continue;
      cut_.insert({p, q});
      wire(p, q).held_until_ns = std::max(wire(p, q).held_until_ns, now_ns_ + duration_ns);
    }
  }
}

void ControlSim::reset(size_t a, size_t b) {
  if (processes_[a].is_dead || processes_[b].is_dead) return;
  trace("the connection of " + std::to_string(a) + " and " + std::to_string(b) + " is reset");
  cut_.insert({a, b});
  cut_.insert({b, a});
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    ++wire(from, to).generation;
    wire(from, to).last_ns = now_ns_;
    close_wire(from, to);
  }
}

std::string ControlSim::check() const {
  for (size_t p = 0; p < processes_.size(); ++p) {
    const Process& one = processes_[p];
    if (one.is_dead || now_ns_ < one.paused_until_ns) continue;
    if (one.is_calling()) return "process " + std::to_string(p) + " has no result";
    if (!one.is_done) return "process " + std::to_string(p) + " does not end";
    const bool is_fenced = one.verdict && one.verdict->word() == "fenced";
    if (is_fenced && faults_.empty()) return "fenced without a fault";
    if (faults_.empty() && one.verdict && one.verdict->word() != "fenced") {
      return "a verdict without a fault: " + one.verdict->message();
    }
  }
  for (const std::string& problem : {check_exchanges(), check_agreement(), check_single_fault()}) {
    if (!problem.empty()) return problem;
  }
  return "";
}

/// Who completes gets what the others completed or would have; nobody completes with a value whose
/// giver was told that the call failed.
std::string ControlSim::check_exchanges() const {
  std::map<std::string, std::vector<std::string>> completed;  // by value
  std::vector<Call> calls;
  for (const Process& one : processes_) {
    for (const Line& line : one.lines) {
      calls.insert(calls.end(), line.calls.begin(), line.calls.end());
    }
  }
  for (const Call& call : calls) {
    if (call.outcome != "ok") continue;
    if (call.values.size() != processes_.size()) return "a result misses a process";
    for (const std::string& value : call.values) {
      const auto [place, is_new] = completed.emplace(value, call.values);
      if (!is_new && place->second != call.values) return "two results with one value differ";
    }
  }
  for (const Call& call : calls) {
    const bool is_in = completed.count(call.value) != 0;
    if (call.outcome == "ok" && !is_in) return "a result misses its own value";
    if (is_in && (call.outcome == "deadline" || call.outcome == "desync")) {
      return "a call ended with " + call.outcome + " but others completed it";
    }
  }
  return "";
}

std::string ControlSim::check_agreement() const {
  for (size_t p = 0; p < processes_.size(); ++p) {
    for (size_t q = 0; q < p; ++q) {
      const Process &a = processes_[p], &b = processes_[q];
      if (a.is_dead || b.is_dead || cut_.count({p, q}) != 0) continue;
      if (!a.verdict || !b.verdict || a.control->is_out() || b.control->is_out()) continue;
      // One that stood still for longer than the others wait for it may have parted from them.
      const bool has_slept = std::max(a.paused_ns, b.paused_ns) > kSettleNs;
      if (has_slept && a.control->has_put_out(q) && b.control->has_put_out(p)) continue;
      if (a.verdict->word() != b.verdict->word() || a.verdict->rank() != b.verdict->rank()) {
        return "processes " + std::to_string(q) + " and " + std::to_string(p) +
               " disagree: " + b.verdict->message() + " / " + a.verdict->message();
      }
    }
  }
  return "";
}

/// Where one process was killed and nothing else happened, the others name it.
std::string ControlSim::check_single_fault() const {
  if (!only_killed_ || !processes_[*only_killed_].is_dead) return "";
  const int64_t rank = options_.peers[*only_killed_].first_rank;
  for (const Process& one : processes_) {
    if (one.is_dead || !one.verdict) continue;
    const bool is_right = is_loss(*one.verdict) && one.verdict->rank() == rank;
    if (one.control->is_out()) return "fenced though only another process failed";
    if (!is_right) return "the wrong one is blamed: " + one.verdict->message();
  }
  return "";
}

}  // namespace plait::test
