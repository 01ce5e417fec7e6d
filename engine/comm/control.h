// The control channel of one process, as a state machine without threads, sockets or clocks:
// heartbeats, losses, agreement on errors, exchanges, and leaving in order. Events go in with the
// time at which they came; letters, a verdict and results come out.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/agreement.h"
#include "engine/comm/control_types.h"
#include "engine/comm/exchange.h"

namespace plait {

class Control {
 public:
  Control(const ControlOptions& options, int64_t now_ns);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Events.
  void received(size_t from, const Frame& frame, int64_t now_ns);
  /// Some bytes came, if no whole frame.
  void heard(size_t from, int64_t now_ns) { heard_ns_[from] = now_ns; }
  void closed(size_t peer, int64_t now_ns);
  void garbled(size_t peer, FrameFault fault, int64_t now_ns);
  /// After all frames that have come; more often than heartbeats.
  void time(int64_t now_ns);
  /// An error of this process. `aborted` and `deadline` are its own affair: the others hear that it
  /// is lost. That a peer is lost (as its data connection says) counts once the peer had time to
  /// say why by itself. All other errors end all processes alike.
  void abort(const Error& error, int64_t now_ns);
  void begin_exchange(const std::string& name, const std::string& value, int64_t deadline_ns,
                      int64_t now_ns, ExchangeStream stream = ExchangeStream::kCalls);
  /// The time of the exchange that runs in `stream`, if one does, is over.
  void hurry_exchange(ExchangeStream stream, int64_t now_ns) { exchange(stream).hurry(now_ns); }
  void leave(int64_t now_ns);

  std::vector<Letter> take_letters() { return outbox_.take(); }
  std::optional<ExchangeResult> take_result(ExchangeStream stream = ExchangeStream::kCalls);
  /// What this process ends with; null as long as there is none.
  const Error* verdict() const { return agreement_.is_final() ? &agreement_.error() : nullptr; }
  bool is_aborting() const { return agreement_.is_active(); }
  /// The others have ended without this process, or it without them.
  bool is_out() const { return verdict() != nullptr && agreement_.is_out(options_.own); }
  /// This process goes on without `peer`.
  bool has_put_out(size_t peer) const { return agreement_.is_out(peer); }
  /// Everybody has left, or the world has ended otherwise.
  bool is_alone() const;

 private:
  Exchange& exchange(ExchangeStream stream) { return exchanges_[static_cast<size_t>(stream)]; }
  Error loss(const char* word, const char* sentence, size_t peer) const;
  void lose(size_t peer, const Error& error, int64_t now_ns);
  void after_agreement();

  const ControlOptions options_;
  Outbox outbox_;
  Agreement agreement_;
  std::array<Exchange, kExchangeStreams> exchanges_;  // by stream
  std::vector<int64_t> heard_ns_;
  std::vector<bool> has_left_, is_closed_;
  struct Suspicion {
    int64_t since_ns = 0;
    std::optional<Error> error;
  };
  std::vector<Suspicion> suspicions_;  // by peer
  bool is_leaving_ = false;
  int64_t beat_ns_ = 0;  // when the last heartbeat left
  int64_t time_ns_ = 0;  // of the last `time`
};

}  // namespace plait
