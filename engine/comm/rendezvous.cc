#include "engine/comm/rendezvous.h"

#include <algorithm>

#include "engine/comm/wire_bytes.h"

namespace plait {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kFirstWaitNs = 20 * kMs, kLongestWaitNs = 500 * kMs;
// A connection that is not there by then may be on its way to an address that leads nowhere.
constexpr int64_t kTryNextNs = 2000 * kMs;
constexpr int64_t kTellNs = 200 * kMs;
constexpr int64_t kReasonNs = 300 * kMs;  // for the reason why a data connection closed
constexpr int64_t kMostStrangers = 256;
// Who leaves the store so shortly before the end has given up as well: it is not what was missing.
constexpr int64_t kNearEndNs = 1000 * kMs;

}  // namespace

Rendezvous::Rendezvous(RendezvousOptions options, CardSet cards, Entropy& entropy, int64_t now_ns)
    : options_(std::move(options)), cards_(std::move(cards)), entropy_(entropy) {
  if (options_.store.empty() || cards_.is_complete()) {
    if (!cards_.is_complete()) {
      fail(missing_ranks("cards of some ranks were not added", cards_.missing()));
      return;
    }
    start_mesh(now_ns);
    return;
  }
  if (is_first()) return;
  Target target;
  target.purpose = Purpose::kStore;
  target.addresses = {options_.store};
  target.retry_ns = now_ns;
  targets_.push_back(std::move(target));
  try_targets(now_ns);
}

int64_t Rendezvous::accepted(const std::string& from, int64_t now_ns) {
  Connection made;
  made.number = next_connection_++;
  made.is_accepted = true;
  made.stage = Stage::kChallenged;
  made.remote = from;
  made.since_ns = now_ns;
  made.ours = random_bytes();
  send(made.number, FrameKind::kChallenge, made.ours);
  int64_t strangers = 0;
  for (const Connection& one : connections_) {
    if (one.is_accepted && one.stage == Stage::kChallenged) ++strangers;
  }
  // Each process comes three times at most.
  if (strangers >= kMostStrangers + 3 * cards_.own().world) drop_stranger();
  connections_.push_back(made);
  return made.number;
}

bool Rendezvous::drop_stranger() {
  for (const Connection& one : connections_) {
    if (!one.is_accepted || one.stage != Stage::kChallenged) continue;
    ++dropped_;
    drop(one.number);
    return true;
  }
  return false;
}

void Rendezvous::connected(int64_t connection, const std::string& to) {
  if (Connection* const found = find(connection)) {
    found->remote = to;
    if (found->stage == Stage::kConnecting) found->stage = Stage::kChallenged;
  }
}

void Rendezvous::received(int64_t connection, const Frame& frame, int64_t now_ns) {
  Connection* const found = find(connection);
  if (found == nullptr || state_ != State::kRunning) return;
  const bool is_opening = found->stage != Stage::kOpen && found->stage != Stage::kParked;
  if (found->stage == Stage::kOpen) return on_open_frame(found, frame, now_ns);
  if (is_opening && found->is_accepted && frame.kind == FrameKind::kHello) {
    return on_hello(found, frame, now_ns);
  }
  if (is_opening && !found->is_accepted) {
    if (frame.kind == FrameKind::kChallenge) return on_challenge(found, frame, now_ns);
    if (frame.kind == FrameKind::kWelcome) return on_welcome(found, frame, now_ns);
    if (frame.kind == FrameKind::kRefusal) return on_refusal(found, frame);
  }
  garbled(connection, FrameFault::kKind, now_ns);
}

void Rendezvous::garbled(int64_t connection, FrameFault fault, int64_t now_ns) {
  Connection* const found = find(connection);
  if (found == nullptr || state_ != State::kRunning) return;
  if (found->stage == Stage::kOpen) {
    const auto card = cards_.find(found->peer);
    fail(Error("corrupt", "a frame of another process is damaged")
             .with("fault", frame_fault_name(fault))
             .rank(card ? static_cast<int32_t>(cards_.cards()[*card].first_rank) : -1)
             .subsystem("engine/comm"));
    return;
  }
  ++dropped_;
  drop(connection);
  closed(connection, now_ns);
}

void Rendezvous::closed(int64_t connection, int64_t now_ns, const Error* why) {
  Connection* const found = find(connection);
  if (found == nullptr) return;
  const Connection gone = *found;
  forget(connection);
  if (state_ != State::kRunning) return;
  if (Target* const target = target_of(connection)) {
    target->connection = -1;
    if (why != nullptr) target->failure = *why;
    if (gone.purpose == Purpose::kStore) {
      target->is_open = false;
      if (!has_cards_) retry(target, now_ns);
      return;
    }
    if (target->is_open) return broken(gone, now_ns);
    retry(target, now_ns);
    return;
  }
  if (gone.stage != Stage::kOpen) return;
  if (gone.purpose != Purpose::kStore) return broken(gone, now_ns);
  if (serves() && !objection_ && options_.deadline_ns - now_ns > kNearEndNs) {
    // It may come again, or another in its place.
    cards_.remove(gone.peer);
    has_told_ = false;
  }
}

void Rendezvous::time(int64_t now_ns) {
  if (state_ != State::kRunning) return;
  if (objection_ && now_ns >= objection_end_ns_) return fail(*objection_);
  if (now_ns >= options_.deadline_ns) return fail(late());
  for (size_t i = 0; i < peers_.size(); ++i) {
    const bool is_due = peers_[i].broken_ns >= 0 && now_ns - peers_[i].broken_ns >= kReasonNs;
    if (is_due) return lost(cards_.cards()[i].nonce);
  }
  std::vector<int64_t> slow;
  for (const Connection& one : connections_) {
    if (one.is_accepted && one.stage == Stage::kChallenged &&
        now_ns - one.since_ns >= options_.handshake_ns) {
      slow.push_back(one.number);
    }
  }
  for (const int64_t number : slow) {
    ++dropped_;
    drop(number);
  }
  for (Target& target : targets_) {
    const Connection* const one = target.connection < 0 ? nullptr : find(target.connection);
    const bool is_stuck = one != nullptr && one->stage == Stage::kConnecting &&
                          target.addresses.size() > 1 && now_ns - one->since_ns >= kTryNextNs;
    if (!is_stuck) continue;
    const int64_t number = std::exchange(target.connection, -1);
    drop(number);
    retry(&target, now_ns);
  }
  try_targets(now_ns);
  if (serves() && !objection_ && !has_told_ && now_ns - told_ns_ >= kTellNs) tell_missing(now_ns);
}

/// The control connection says why it closes, if at all, before it does; the data connection leaves
/// that to it.
void Rendezvous::broken(const Connection& connection, int64_t now_ns) {
  const auto peer = cards_.find(connection.peer);
  if (connection.purpose == Purpose::kControl || !peer) return lost(connection.peer);
  peers_[*peer].broken_ns = now_ns;
}

void Rendezvous::fail(const Error& error) { end(error, {cards_.own().first_rank}); }

void Rendezvous::abandon(const Error& error) {
  if (state_ != State::kRunning) return;
  const Card& own = cards_.own();
  const Error told = Error("peer_lost", "a process gave up while the world was being made")
                         .with("rank", own.first_rank)
                         .with("ranks", own.local_ranks)
                         .with("cause", error.word())
                         .rank(static_cast<int32_t>(own.first_rank))
                         .subsystem("engine/comm");
  end(told, {own.first_rank});
  error_ = error;
}

int64_t Rendezvous::connection(size_t peer, Purpose purpose) const {
  return purpose == Purpose::kControl ? peers_[peer].control : peers_[peer].data;
}

bool Rendezvous::is_trusted(int64_t connection) const {
  for (const Connection& one : connections_) {
    if (one.number == connection) return one.stage == Stage::kOpen;
  }
  return false;
}

Rendezvous::Connection* Rendezvous::find(int64_t number) {
  for (Connection& one : connections_) {
    if (one.number == number) return &one;
  }
  return nullptr;
}

Rendezvous::Target* Rendezvous::target_of(int64_t number) {
  for (Target& one : targets_) {
    if (one.connection == number) return &one;
  }
  return nullptr;
}

void Rendezvous::send(int64_t connection, FrameKind frame, std::string body) {
  actions_.push_back({RendezvousAction::Kind::kSend, connection, "", frame, std::move(body)});
}

void Rendezvous::drop(int64_t connection) {
  actions_.push_back({RendezvousAction::Kind::kClose, connection, "", FrameKind::kHello, ""});
  if (target_of(connection) == nullptr) forget(connection);
}

void Rendezvous::forget(int64_t connection) {
  std::erase_if(connections_, [&](const Connection& one) { return one.number == connection; });
}

std::string Rendezvous::random_bytes() {
  ByteWriter bytes;
  bytes.number(entropy_.next()).number(entropy_.next());
  return bytes.bytes();
}

void Rendezvous::retry(Target* target, int64_t now_ns) {
  target->wait_ns = std::clamp(target->wait_ns * 2, kFirstWaitNs, kLongestWaitNs);
  target->retry_ns = now_ns + target->wait_ns;
  target->choice = (target->choice + 1) % target->addresses.size();
}

void Rendezvous::try_targets(int64_t now_ns) {
  if (state_ != State::kRunning) return;
  // Only who was welcomed by the process of rank 0 is sure of its token.
  const bool is_sure = !options_.store.empty() || targets_.empty() || targets_[0].is_open;
  for (size_t i = 0; i < targets_.size(); ++i) {
    Target& target = targets_[i];
    if (target.is_open || target.connection >= 0 || now_ns < target.retry_ns) continue;
    if (target.purpose == Purpose::kStore && has_cards_) continue;
    if (i > 0 && !is_sure) continue;
    Connection made;
    made.number = next_connection_++;
    made.purpose = target.purpose;
    made.peer = target.peer;
    made.since_ns = now_ns;
    target.connection = made.number;
    connections_.push_back(made);
    actions_.push_back({RendezvousAction::Kind::kConnect, made.number,
                        target.addresses[target.choice], FrameKind::kHello, "",
                        target.purpose == Purpose::kStore});
  }
}

void Rendezvous::start_mesh(int64_t now_ns) {
  has_cards_ = true;
  peers_.assign(cards_.cards().size(), {});
  for (size_t i = 0; i < cards_.own_index(); ++i) {
    add_target(Purpose::kControl, cards_.cards()[i]);
    add_target(Purpose::kData, cards_.cards()[i]);
  }
  try_targets(now_ns);
  std::vector<int64_t> parked;
  for (const Connection& one : connections_) {
    if (one.stage == Stage::kParked) parked.push_back(one.number);
  }
  for (const int64_t number : parked) {
    if (Connection* const one = find(number)) admit(one, now_ns);
  }
  check_ready();
}

void Rendezvous::add_target(Purpose purpose, const Card& card) {
  Target target;
  target.purpose = purpose;
  target.peer = card.nonce;
  target.addresses = card.addresses;
  if (target.addresses.empty()) {
    return fail(Error("argument", "the card of another process has no address")
                    .with("rank", card.first_rank)
                    .subsystem("engine/comm"));
  }
  targets_.push_back(std::move(target));
}

void Rendezvous::lost(uint64_t nonce) {
  const auto found = cards_.find(nonce);
  if (!found) return;
  const Card& card = cards_.cards()[*found];
  end(Error("peer_lost", "a process was lost while the world was being made")
          .with("rank", card.first_rank)
          .with("ranks", card.local_ranks)
          .with("host", card.host)
          .with("pid", card.pid)
          .rank(static_cast<int32_t>(card.first_rank))
          .subsystem("engine/comm"),
      {card.first_rank, cards_.own().first_rank});
}

void Rendezvous::end(const Error& error, std::vector<int64_t> excluded) {
  if (state_ != State::kRunning) return;
  state_ = State::kFailed;
  error_ = error;
  if (!has_cards_ && !is_first()) return;  // the store goes on waiting for this rank
  tell(error, std::move(excluded));
}

void Rendezvous::tell(const Error& error, std::vector<int64_t> excluded) {
  Announcement announcement{error, std::move(excluded), false};
  std::sort(announcement.excluded.begin(), announcement.excluded.end());
  const std::string body = encode_announcement(announcement);
  for (const Connection& one : connections_) {
    if (one.stage == Stage::kOpen && one.purpose != Purpose::kData) {
      send(one.number, FrameKind::kAnnounce, body);
    }
  }
}

Error Rendezvous::late() const {
  if (!has_cards_ && serves()) {
    return missing_ranks("not all ranks came in time", cards_.missing());
  }
  if (!has_cards_) {
    if (!missing_.empty()) return missing_ranks("not all ranks came in time", missing_);
    const std::optional<Error>& failure = targets_[0].failure;
    const bool is_unresolved = failure && failure->word() != "deadline" &&
                               failure->message().find("reason=") != std::string::npos;
    if (is_unresolved) return *failure;
    Error error = missing_ranks("the process of rank 0 does not answer", {{0, 1}})
                      .with("address", options_.store);
    if (failure) std::move(error).with("cause", failure->message());
    return error;
  }
  std::vector<RankSpan> absent, unready;
  for (size_t i = 0; i < peers_.size(); ++i) {
    const Card& card = cards_.cards()[i];
    const RankSpan span{card.first_rank, card.local_ranks};
    if (i == cards_.own_index()) continue;
    if (peers_[i].control < 0 || peers_[i].data < 0) absent.push_back(span);
    if (!peers_[i].is_ready) unready.push_back(span);
  }
  if (!absent.empty()) return missing_ranks("some processes did not connect in time", absent);
  return missing_ranks("some processes did not connect to all others in time", unready);
}

}  // namespace plait
