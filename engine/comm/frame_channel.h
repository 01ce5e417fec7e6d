// A connection that carries frames: what is not yet sent and what is not yet a whole frame. Never
// blocks. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/comm/frame.h"
#include "kernels/base/net.h"

namespace plait {

class FrameChannel {
 public:
  FrameChannel(std::unique_ptr<Socket> socket, uint32_t limit)
      : socket_(std::move(socket)), reader_(limit) {}

  void queue(FrameKind kind, uint64_t epoch, std::string body);
  /// Sends what the connection takes.
  void flush();
  /// Reads what there is, up to a limit for fairness. True when anything came.
  bool fill();
  /// False: no whole frame, or a fault.
  bool next(Frame* frame) { return reader_.next(frame); }
  FrameFault fault() const { return reader_.fault(); }
  /// The peer closed or reset; frames that came before may be left.
  bool is_closed() const { return is_closed_; }
  bool wants_write() const { return sent_ < output_.size() && !is_closed_; }
  void set_limit(uint32_t limit) { reader_.set_limit(limit); }

  Socket* socket() { return socket_.get(); }
  /// The socket for another use: nothing may be queued or half read.
  std::unique_ptr<Socket> release() { return std::move(socket_); }

 private:
  std::unique_ptr<Socket> socket_;
  FrameReader reader_;
  std::string output_;
  size_t sent_ = 0;
  uint64_t sequence_ = 0;
  bool is_closed_ = false;
};

}  // namespace plait
