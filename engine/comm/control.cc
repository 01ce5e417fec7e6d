#include "engine/comm/control.h"

#include <algorithm>

namespace plait {

Control::Control(const ControlOptions& options, int64_t now_ns)
    : options_(options),
      agreement_(options_, outbox_),
      exchanges_{Exchange(options_, outbox_, ExchangeStream::kCalls),
                 Exchange(options_, outbox_, ExchangeStream::kSaves)},
      heard_ns_(options.peers.size(), now_ns),
      has_left_(options.peers.size()),
      is_closed_(options.peers.size()),
      suspicions_(options.peers.size()),
      beat_ns_(now_ns - options.heartbeat_ns),
      time_ns_(now_ns) {}

void Control::received(size_t from, const Frame& frame, int64_t now_ns) {
  heard_ns_[from] = now_ns;
  if (verdict() != nullptr || has_left_[from]) return;
  bool is_sound = true;
  switch (frame.kind) {
    case FrameKind::kHeartbeat:
      break;
    case FrameKind::kAnnounce: {
      Announcement announcement;
      is_sound = decode_announcement(frame.body, &announcement);
      if (!is_sound) break;
      if (is_leaving_) {
        has_left_[from] = true;
      } else {
        agreement_.heard(from, announcement, now_ns);
      }
      break;
    }
    case FrameKind::kContribute:
    case FrameKind::kWithdraw:
    case FrameKind::kResult: {
      if (agreement_.is_active()) break;  // nothing is decided any more
      const std::optional<ExchangeStream> stream = Exchange::stream_of(frame);
      is_sound = stream && exchange(*stream).received(from, frame, now_ns);
      break;
    }
    case FrameKind::kLeave:
      has_left_[from] = true;
      agreement_.left(from);
      for (Exchange& one : exchanges_) {
        if (!agreement_.is_active()) one.left(from, now_ns);
      }
      break;
    default:
      is_sound = false;
  }
  if (!is_sound) garbled(from, FrameFault::kKind, now_ns);
  after_agreement();
}

void Control::closed(size_t peer, int64_t now_ns) {
  is_closed_[peer] = true;
  if (has_left_[peer] || is_leaving_) {
    has_left_[peer] = true;
    return;
  }
  lose(peer, loss("peer_lost", "the connection to a process was closed", peer), now_ns);
}

void Control::garbled(size_t peer, FrameFault fault, int64_t now_ns) {
  is_closed_[peer] = true;
  if (has_left_[peer] || is_leaving_) return;
  lose(peer,
       loss("corrupt", "a control frame is damaged", peer).with("fault", frame_fault_name(fault)),
       now_ns);
}

void Control::time(int64_t now_ns) {
  if (now_ns - time_ns_ > options_.heartbeat_ns) {
    // This process did not run: its silence says nothing about the others.
    const int64_t gap = now_ns - time_ns_;
    for (int64_t& heard : heard_ns_) heard = std::min(heard + gap, now_ns);
    agreement_.shift(gap);
    for (Exchange& one : exchanges_) one.shift(gap);
  }
  time_ns_ = now_ns;
  if (verdict() != nullptr) return;
  if (now_ns - beat_ns_ >= options_.heartbeat_ns) {
    beat_ns_ = now_ns;
    for (size_t peer = 0; peer < heard_ns_.size(); ++peer) {
      const bool is_there = peer != options_.own && !is_closed_[peer] && !has_left_[peer];
      if (is_there) outbox_.send(peer, FrameKind::kHeartbeat, "");
    }
  }
  for (size_t peer = 0; peer < heard_ns_.size() && !is_leaving_; ++peer) {
    const bool is_watched = peer != options_.own && !has_left_[peer] && !agreement_.is_out(peer);
    if (!is_watched || now_ns - heard_ns_[peer] < options_.frozen_ns) continue;
    lose(peer,
         loss("peer_frozen", "nothing was heard of a process", peer)
             .with("silent_ms", (now_ns - heard_ns_[peer]) / 1'000'000),
         now_ns);
  }
  for (size_t peer = 0; peer < suspicions_.size() && !is_leaving_; ++peer) {
    const Suspicion& one = suspicions_[peer];
    const bool is_due = one.error && now_ns - one.since_ns >= options_.settle_ns / 2;
    if (is_due && !has_left_[peer]) lose(peer, *one.error, now_ns);
  }
  agreement_.time(now_ns);
  for (Exchange& one : exchanges_) {
    if (!agreement_.is_active()) one.time(now_ns);
  }
  after_agreement();
}

void Control::abort(const Error& error, int64_t now_ns) {
  if (agreement_.is_final() || is_leaving_) return;
  const ControlPeer& own = options_.peers[options_.own];
  Error marked = error;
  if (marked.rank() < 0) std::move(marked).rank(static_cast<int32_t>(own.first_rank));
  if (error.word() == "aborted" || error.word() == "deadline") {
    const Error told =
        loss("peer_lost", "a process gave up", options_.own).with("cause", error.word());
    agreement_.resign(marked, told);
    return after_agreement();
  }
  if (marked.disposition() != Disposition::kProcessLost) {
    std::move(marked).disposition(Disposition::kEngineLost);
  }
  for (size_t peer = 0; peer < options_.peers.size() && is_loss(error); ++peer) {
    const ControlPeer& one = options_.peers[peer];
    const bool is_its =
        marked.rank() >= one.first_rank && marked.rank() < one.first_rank + one.local_ranks;
    if (!is_its || peer == options_.own) continue;
    if (!suspicions_[peer].error) suspicions_[peer] = {now_ns, marked};
    return;
  }
  agreement_.begin(marked, std::nullopt, now_ns);
  after_agreement();
}

void Control::begin_exchange(const std::string& name, const std::string& value, int64_t deadline_ns,
                             int64_t now_ns, ExchangeStream stream) {
  exchange(stream).begin(name, value, deadline_ns, now_ns);
  after_agreement();
}

void Control::leave(int64_t now_ns) {
  if (agreement_.is_active() || is_leaving_) return;
  is_leaving_ = true;
  for (size_t peer = 0; peer < options_.peers.size(); ++peer) {
    if (peer != options_.own && !is_closed_[peer]) outbox_.send(peer, FrameKind::kLeave, "");
  }
  for (Exchange& one : exchanges_) one.left(options_.own, now_ns);
}

std::optional<ExchangeResult> Control::take_result(ExchangeStream stream) {
  std::optional<ExchangeResult> result = exchange(stream).take_result();
  // Others went on without this process: what it would complete now counts no more.
  if (result && is_out()) result = ExchangeResult{*verdict(), {}};
  return result;
}

bool Control::is_alone() const {
  if (verdict() != nullptr) return true;
  for (size_t peer = 0; peer < has_left_.size(); ++peer) {
    if (peer != options_.own && !has_left_[peer] && !is_closed_[peer]) return false;
  }
  return true;
}

Error Control::loss(const char* word, const char* sentence, size_t peer) const {
  const ControlPeer& who = options_.peers[peer];
  Error error = Error(word, sentence)
                    .with("rank", who.first_rank)
                    .with("ranks", who.local_ranks)
                    .with("host", who.host)
                    .with("pid", who.pid)
                    .rank(static_cast<int32_t>(who.first_rank))
                    .disposition(Disposition::kEngineLost)
                    .subsystem("engine/comm");
  for (const Exchange& one : exchanges_) {
    if (!one.is_running()) continue;
    std::move(error).with("operation", one.name()).with("sequence", one.sequence());
    break;
  }
  return error;
}

void Control::lose(size_t peer, const Error& error, int64_t now_ns) {
  if (agreement_.is_final()) return;
  agreement_.begin(error, peer, now_ns);
  after_agreement();
}

void Control::after_agreement() {
  for (Exchange& one : exchanges_) {
    if (verdict() != nullptr && one.is_running()) one.end(*verdict());
  }
}

}  // namespace plait
