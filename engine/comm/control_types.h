// What the parts of the control channel share: its processes, and what is to be sent to them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/comm/frame.h"

namespace plait {

/// One process, as all call it.
struct ControlPeer {
  int64_t first_rank = 0;
  int64_t local_ranks = 1;
  std::string host;
  int64_t pid = 0;
};

struct ControlOptions {
  std::vector<ControlPeer> peers;  ///< by ascending first rank, the own one among them
  size_t own = 0;
  int64_t heartbeat_ns = 0;
  int64_t frozen_ns = 0;  ///< silence that counts as a loss
  int64_t settle_ns = 0;  ///< how long agreement waits for somebody
  int64_t desync_ns = 0;  ///< from a mismatch to the verdict, when somebody has not come
};

struct Letter {
  size_t peer = 0;
  FrameKind kind = FrameKind::kHeartbeat;
  std::string body;
};

/// Letters in the order in which they are to leave.
class Outbox {
 public:
  void send(size_t peer, FrameKind kind, std::string body) {
    letters_.push_back({peer, kind, std::move(body)});
  }
  std::vector<Letter> take() { return std::exchange(letters_, {}); }
  bool is_empty() const { return letters_.empty(); }

 private:
  std::vector<Letter> letters_;
};

}  // namespace plait
