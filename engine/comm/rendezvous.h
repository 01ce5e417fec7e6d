// How processes meet, as a state machine without threads, sockets or clocks: events go in, actions
// come out, and whoever drives it (sockets, or a simulated network) carries them out.
//
// 1. Cards. With a store, the process of rank 0 collects a card from each of the others and, once
//    all ranks are there, sends the whole set to each. Without one, the set is given.
// 2. Mesh. Each process connects twice (control, data) to each one with lower ranks; the process of
//    rank 0 comes first, because its token is the one that counts.
// 3. Ready. Who has all its connections says so to all; who has heard that from all is complete.
//
// Each connection begins: challenge → hello → welcome or refusal. Both sides prove that they know
// the token over the other's random bytes. Whoever cannot is dropped and counted; the process of
// rank 0 tells it so. Disagreements among those who can (world, ranks, versions), a deadline, and a
// process lost in steps 2 and 3 end the meeting for all that are connected, with one error; after a
// disagreement the store stays for a moment, so that those who come later hear the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/comm/announcement.h"
#include "engine/comm/card.h"
#include "engine/comm/frame.h"
#include "kernels/base/env.h"

namespace plait {

enum class Purpose : uint8_t { kStore, kControl, kData };

struct RendezvousOptions {
  std::string token;
  std::string store;  ///< where the others find the store; empty: the cards are known
  int64_t deadline_ns = 0;
  int64_t handshake_ns = 0;  ///< for a connection from outside to prove itself
};

/// What the driver is to do.
struct RendezvousAction {
  enum class Kind { kConnect, kSend, kClose };
  Kind kind = Kind::kSend;
  int64_t connection = 0;
  std::string address;  ///< of kConnect
  FrameKind frame = FrameKind::kHello;
  std::string body;
  bool may_wait = false;  ///< kConnect: a name, and nothing else to do meanwhile
};

class Rendezvous {
 public:
  enum class State { kRunning, kComplete, kFailed };

  static constexpr uint32_t kStrangerLimit = 8192;  ///< bytes of a frame before the welcome
  static constexpr uint32_t kCardsLimit = 1u << 28;

  Rendezvous(RendezvousOptions options, CardSet cards, Entropy& entropy, int64_t now_ns);

  // Events.
  /// Somebody connected, from "host:port". Returns the number of the new connection.
  int64_t accepted(const std::string& from, int64_t now_ns);
  /// A kConnect came through, to "host:port".
  void connected(int64_t connection, const std::string& to);
  void received(int64_t connection, const Frame& frame, int64_t now_ns);
  /// Closed by the peer, never reached (`why`, if known), or not speaking our language.
  void closed(int64_t connection, int64_t now_ns, const Error* why = nullptr);
  void garbled(int64_t connection, FrameFault fault, int64_t now_ns);
  void time(int64_t now_ns);
  /// Makes room by dropping whoever has been unknown for longest; false: nobody is.
  bool drop_stranger();
  /// Ends the meeting for all.
  void fail(const Error& error);
  /// Leaves it: the others learn that this process is lost.
  void abandon(const Error& error);

  /// Since the last call.
  std::vector<RendezvousAction> take_actions() { return std::exchange(actions_, {}); }

  State state() const { return state_; }
  const Error& error() const { return *error_; }
  const CardSet& cards() const { return cards_; }
  /// Connection to a process, by index of its card; there once complete.
  int64_t connection(size_t peer, Purpose purpose) const;
  /// Frames of the control channel that came before this process was complete, by peer.
  std::vector<std::pair<size_t, Frame>> take_early() { return std::exchange(early_, {}); }
  /// Connections from outside that were dropped.
  int64_t dropped() const { return dropped_; }
  /// True when a frame on this connection may be longer than kStrangerLimit.
  bool is_trusted(int64_t connection) const;

 private:
  enum class Stage { kConnecting, kChallenged, kGreeted, kParked, kOpen };
  struct Connection {
    int64_t number = 0;
    bool is_accepted = false;
    Stage stage = Stage::kConnecting;
    Purpose purpose = Purpose::kControl;
    uint64_t peer = 0;         // nonce of its card; 0: unknown
    std::string ours, theirs;  // challenges
    std::string remote;        // "host:port"
    int64_t since_ns = 0;
  };
  /// Somebody to connect to, again and again until it answers.
  struct Target {
    Purpose purpose = Purpose::kControl;
    uint64_t peer = 0;
    std::vector<std::string> addresses;
    size_t choice = 0;
    int64_t connection = -1;  // −1: none at present
    int64_t retry_ns = 0;
    int64_t wait_ns = 0;  // until the next try
    bool is_open = false;
    std::optional<Error> failure;  // of the last try
  };
  struct PeerState {
    int64_t control = -1, data = -1;
    bool is_ready = false;
    int64_t broken_ns = -1;  // when its data connection closed; −1: it stands
  };

  bool is_first() const { return cards_.own().first_rank == 0; }
  bool serves() const { return !options_.store.empty() && is_first() && !has_cards_; }
  Connection* find(int64_t number);
  Target* target_of(int64_t number);
  void send(int64_t connection, FrameKind frame, std::string body);
  void drop(int64_t connection);
  void forget(int64_t connection);
  std::string random_bytes();
  void retry(Target* target, int64_t now_ns);
  void try_targets(int64_t now_ns);
  void start_mesh(int64_t now_ns);
  void add_target(Purpose purpose, const Card& card);
  void on_challenge(Connection* connection, const Frame& frame, int64_t now_ns);
  void on_hello(Connection* connection, const Frame& frame, int64_t now_ns);
  void on_welcome(Connection* connection, const Frame& frame, int64_t now_ns);
  void on_refusal(Connection* connection, const Frame& frame);
  void on_open_frame(Connection* connection, const Frame& frame, int64_t now_ns);
  void on_missing(const Frame& frame);
  void on_cards(const Connection& connection, const Frame& frame, int64_t now_ns);
  void refuse(const Connection& connection, const Error& error);
  void object(const Connection& connection, const Card& card, const Error& error, int64_t now_ns);
  void admit(Connection* connection, int64_t now_ns);
  void admit_to_store(Connection* connection, Card card, int64_t now_ns);
  void hand_out(int64_t now_ns);
  void tell_missing(int64_t now_ns);
  void open(Connection* connection, int64_t now_ns);
  void check_ready();
  void broken(const Connection& connection, int64_t now_ns);
  void lost(uint64_t nonce);
  void tell(const Error& error, std::vector<int64_t> excluded);
  void end(const Error& error, std::vector<int64_t> excluded);
  Error late() const;

  RendezvousOptions options_;
  CardSet cards_;
  Entropy& entropy_;
  State state_ = State::kRunning;
  std::optional<Error> error_;
  std::optional<Error> objection_;  // of the store, which stays to tell those who come later
  int64_t objection_end_ns_ = 0;
  std::vector<Card> objected_;  // with that
  bool has_cards_ = false;      // of all
  bool is_ready_ = false;       // said so
  bool has_told_ = true;        // the clients of the store know who is missing
  int64_t told_ns_ = 0;
  int64_t next_connection_ = 1;
  int64_t dropped_ = 0;
  std::vector<Connection> connections_;
  std::vector<Target> targets_;
  std::vector<PeerState> peers_;   // by card, once all are known
  std::vector<RankSpan> missing_;  // as the store said
  std::vector<RendezvousAction> actions_;
  std::vector<std::pair<size_t, Frame>> early_;
};

}  // namespace plait
