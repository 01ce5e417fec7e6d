// What a Rendezvous does with the frames of the others.
#include <algorithm>

#include "engine/comm/rendezvous.h"
#include "engine/comm/token_proof.h"
#include "engine/comm/wire_bytes.h"
#include "kernels/base/net.h"

namespace plait {
namespace {

constexpr size_t kChallengeBytes = 16;
constexpr size_t kMostEarly = 4096;
constexpr int64_t kObjectionNs = 2'000'000'000;

std::string purpose_text(Purpose purpose) {
  return std::string(1, static_cast<char>('0' + static_cast<int>(purpose)));
}

/// Puts the listener as it is seen from outside in front of the addresses that its owner knows.
void add_seen_address(Card* card, const std::string& remote) {
  if (card->addresses.empty()) return;
  try {
    const std::string host = split_address(remote).host;
    const bool is_ipv6 = host.find(':') != std::string::npos;
    const std::string seen =
        (is_ipv6 ? "[" + host + "]" : host) + ":" + split_address(card->addresses[0]).port;
    std::erase(card->addresses, seen);
    card->addresses.insert(card->addresses.begin(), seen);
  } catch (const Error&) {
    // No such address: those of the card remain.
  }
}

}  // namespace

void Rendezvous::on_challenge(Connection* connection, const Frame& frame, int64_t now_ns) {
  if (frame.body.size() != kChallengeBytes || connection->stage == Stage::kGreeted) {
    return garbled(connection->number, FrameFault::kKind, now_ns);
  }
  connection->theirs = frame.body;
  connection->ours = random_bytes();
  connection->stage = Stage::kGreeted;
  const std::string card = encode_card(cards_.own());
  ByteWriter target;
  target.number(connection->peer);
  ByteWriter body;
  body.number(static_cast<uint8_t>(connection->purpose)).number(connection->peer);
  body.text(connection->ours);
  body.text(token_proof(options_.token, {"hello", connection->theirs, connection->ours,
                                         purpose_text(connection->purpose), target.bytes(), card}));
  body.text(card);
  send(connection->number, FrameKind::kHello, body.bytes());
}

void Rendezvous::on_hello(Connection* connection, const Frame& frame, int64_t now_ns) {
  const int64_t number = connection->number;
  ByteReader in(frame.body);
  const auto purpose = in.number<uint8_t>();
  const auto target = in.number<uint64_t>();
  connection->theirs = in.text();
  const std::string proof(in.text());
  const std::string card_bytes(in.text());
  const bool is_for_store = purpose == static_cast<uint8_t>(Purpose::kStore);
  const bool is_for_us = is_for_store ? serves() : target == cards_.own().nonce;
  if (!in.is_complete() || purpose > static_cast<uint8_t>(Purpose::kData) || !is_for_us ||
      connection->theirs.size() != kChallengeBytes) {
    return garbled(number, FrameFault::kKind, now_ns);
  }
  connection->purpose = static_cast<Purpose>(purpose);
  ByteWriter target_bytes;
  target_bytes.number(target);
  const std::string want = token_proof(
      options_.token, {"hello", connection->ours, connection->theirs,
                       purpose_text(connection->purpose), target_bytes.bytes(), card_bytes});
  if (!is_same_proof(proof, want)) {
    if (is_first()) refuse(*connection, Error("token", "the token is not that of rank 0"));
    return garbled(number, FrameFault::kKind, now_ns);
  }
  Card card;
  try {
    card = decode_card(card_bytes);
  } catch (const Error&) {
    return garbled(number, FrameFault::kKind, now_ns);
  }
  if (objection_) return object(*connection, card, *objection_, now_ns);
  if (const std::optional<Error> objection = cards_.objection(card)) {
    return object(*connection, card, *objection, now_ns);
  }
  connection->peer = card.nonce;
  if (is_for_store) return admit_to_store(connection, std::move(card), now_ns);
  if (has_cards_) return admit(connection, now_ns);
  connection->stage = Stage::kParked;
}

void Rendezvous::object(const Connection& connection, const Card& card, const Error& error,
                        int64_t now_ns) {
  refuse(connection, error);
  if (!serves()) return fail(error);
  if (!objection_) {
    objection_ = error;
    objection_end_ns_ = now_ns + kObjectionNs;
    objected_ = cards_.cards();
    tell(error, {cards_.own().first_rank});
  }
  objected_.push_back(card);
  // Nobody else is to come once every rank was there.
  std::sort(objected_.begin(), objected_.end(),
            [](const Card& a, const Card& b) { return a.first_rank < b.first_rank; });
  int64_t next = 0;
  for (const Card& one : objected_) {
    if (one.first_rank <= next) next = std::max(next, one.end_rank());
  }
  if (next >= cards_.own().world) fail(error);
}

void Rendezvous::refuse(const Connection& connection, const Error& error) {
  const std::string bytes = encode_error(error);
  ByteWriter body;
  body.text(token_proof(options_.token, {"refusal", connection.theirs, connection.ours, bytes}));
  body.text(bytes);
  send(connection.number, FrameKind::kRefusal, body.bytes());
}

void Rendezvous::on_refusal(Connection* connection, const Frame& frame) {
  ByteReader in(frame.body);
  const std::string_view proof = in.text();
  const std::string_view bytes = in.text();
  const std::string want =
      token_proof(options_.token, {"refusal", connection->ours, connection->theirs, bytes});
  Error error("token", "the process of rank 0 has another token");
  if (is_same_proof(proof, want)) {
    if (!decode_error(bytes, &error)) error = Error("corrupt", "a refusal is damaged");
    return fail(error);
  }
  // Who refuses without knowing our token says nothing that we could trust but this.
  state_ = State::kFailed;
  error_ = std::move(error).with("address", connection->remote).subsystem("engine/comm");
}

void Rendezvous::on_welcome(Connection* connection, const Frame& frame, int64_t now_ns) {
  const std::string want =
      token_proof(options_.token, {"welcome", connection->ours, connection->theirs});
  if (connection->stage != Stage::kGreeted || !is_same_proof(frame.body, want)) {
    return garbled(connection->number, FrameFault::kKind, now_ns);
  }
  open(connection, now_ns);
}

void Rendezvous::open(Connection* connection, int64_t now_ns) {
  connection->stage = Stage::kOpen;
  if (Target* const target = target_of(connection->number)) target->is_open = true;
  if (connection->purpose != Purpose::kStore) {
    PeerState& peer = peers_[*cards_.find(connection->peer)];
    (connection->purpose == Purpose::kControl ? peer.control : peer.data) = connection->number;
  }
  try_targets(now_ns);
  check_ready();
}

void Rendezvous::admit(Connection* connection, int64_t now_ns) {
  const auto index = cards_.find(connection->peer);
  const bool is_expected = index.has_value() && *index > cards_.own_index();
  const bool is_double = is_expected && this->connection(*index, connection->purpose) >= 0;
  if (!is_expected || is_double) return garbled(connection->number, FrameFault::kKind, now_ns);
  send(connection->number, FrameKind::kWelcome,
       token_proof(options_.token, {"welcome", connection->theirs, connection->ours}));
  open(connection, now_ns);
}

void Rendezvous::admit_to_store(Connection* connection, Card card, int64_t now_ns) {
  const int64_t number = connection->number;
  std::vector<int64_t> older;
  for (const Connection& one : connections_) {
    const bool is_same = one.purpose == Purpose::kStore && one.peer == card.nonce;
    if (is_same && one.is_accepted && one.number != number) older.push_back(one.number);
  }
  for (const int64_t one : older) drop(one);
  connection = find(number);
  add_seen_address(&card, connection->remote);
  cards_.remove(card.nonce);
  cards_.add(card);
  connection->stage = Stage::kOpen;
  send(number, FrameKind::kWelcome,
       token_proof(options_.token, {"welcome", connection->theirs, connection->ours}));
  has_told_ = false;
  if (cards_.is_complete()) hand_out(now_ns);
}

void Rendezvous::hand_out(int64_t now_ns) {
  ByteWriter body;
  body.number(static_cast<uint32_t>(cards_.cards().size()));
  for (const Card& card : cards_.cards()) body.text(encode_card(card));
  for (const Connection& one : connections_) {
    if (one.stage == Stage::kOpen && one.purpose == Purpose::kStore) {
      send(one.number, FrameKind::kCards, body.bytes());
    }
  }
  start_mesh(now_ns);
}

void Rendezvous::tell_missing(int64_t now_ns) {
  has_told_ = true;
  told_ns_ = now_ns;
  ByteWriter body;
  const std::vector<RankSpan> spans = cards_.missing();
  body.number(static_cast<uint32_t>(spans.size()));
  for (const RankSpan& span : spans) body.number(span.first).number(span.count);
  for (const Connection& one : connections_) {
    if (one.stage == Stage::kOpen && one.purpose == Purpose::kStore) {
      send(one.number, FrameKind::kMissing, body.bytes());
    }
  }
}

void Rendezvous::on_open_frame(Connection* connection, const Frame& frame, int64_t now_ns) {
  const bool is_client = connection->purpose == Purpose::kStore && !connection->is_accepted;
  if (frame.kind == FrameKind::kAnnounce) {
    Announcement announcement;
    if (decode_announcement(frame.body, &announcement)) return fail(announcement.error);
  } else if (is_client && frame.kind == FrameKind::kMissing) {
    return on_missing(frame);
  } else if (is_client && frame.kind == FrameKind::kCards && !has_cards_) {
    const Connection copy = *connection;
    return on_cards(copy, frame, now_ns);
  } else if (connection->purpose == Purpose::kControl) {
    const size_t peer = *cards_.find(connection->peer);
    if (frame.kind == FrameKind::kReady) {
      peers_[peer].is_ready = true;
      return check_ready();
    }
    if (frame.kind > FrameKind::kReady && early_.size() < kMostEarly) {
      early_.emplace_back(peer, frame);
      return;
    }
  }
  garbled(connection->number, FrameFault::kKind, now_ns);
}

void Rendezvous::on_missing(const Frame& frame) {
  ByteReader in(frame.body);
  const auto count = in.number<uint32_t>();
  std::vector<RankSpan> spans;
  for (uint32_t i = 0; i < count && in.is_good(); ++i) {
    RankSpan span;
    span.first = in.number<int64_t>();
    span.count = in.number<int64_t>();
    spans.push_back(span);
  }
  if (in.is_complete()) missing_ = std::move(spans);
}

void Rendezvous::on_cards(const Connection& connection, const Frame& frame, int64_t now_ns) {
  CardSet all(cards_.own());
  try {
    ByteReader in(frame.body);
    const auto count = in.number<uint32_t>();
    for (uint32_t i = 0; i < count && in.is_good(); ++i) {
      Card card = decode_card(in.text());
      if (card.first_rank == 0) add_seen_address(&card, connection.remote);
      all.add(card);
    }
    if (!in.is_complete() || !all.is_complete()) {
      throw Error("corrupt", "the list of cards is damaged");
    }
  } catch (const Error& error) {
    return fail(error);
  }
  cards_ = std::move(all);
  start_mesh(now_ns);
}

void Rendezvous::check_ready() {
  if (state_ != State::kRunning || !has_cards_) return;
  bool is_all_ready = true;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (i == cards_.own_index()) continue;
    if (peers_[i].control < 0 || peers_[i].data < 0) return;
    is_all_ready = is_all_ready && peers_[i].is_ready;
  }
  if (!is_ready_) {
    is_ready_ = true;
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (i != cards_.own_index()) send(peers_[i].control, FrameKind::kReady, "");
    }
  }
  if (is_all_ready) state_ = State::kComplete;
}

}  // namespace plait
