// Takes frames out of the stream from one other process and puts messages into the mailboxes of
// their destinations. Large payloads are read where they belong, without a copy in between.
//
// Thread: the link's own.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/comm/stream_frame.h"
#include "engine/comm/stream_outbox.h"
#include "kernels/base/function_ref.h"

namespace plait {

class StreamInbox {
 public:
  enum class Progress {
    kEmpty,   ///< nothing more is there at present
    kMore,    ///< the budget is spent
    kClosed,  ///< nothing more will come
  };
  /// As Streams::read for this peer.
  using Read = FunctionRef<int64_t(void* data, int64_t bytes)>;

  /// All outlive this. `outbox` is that of the same process: releases go there.
  StreamInbox(Fabric& fabric, StreamOutbox& outbox, const RemoteRanks& ranks);

  /// Reads up to about `budget` bytes. Throws `corrupt` for what cannot be a frame of that process.
  Progress take(Read read, int64_t budget);
  /// The process said that it closes on purpose.
  bool has_left() const { return has_left_; }

 private:
  void parse();
  void begin(const StreamFrame& frame);
  void copy_payload();
  void end_message();

  Fabric& fabric_;
  StreamOutbox& outbox_;
  const RemoteRanks ranks_;
  std::unique_ptr<char[]> buffer_;
  int64_t begin_ = 0, end_ = 0;  // of what is read and not parsed
  MessageHead head_;             // of the message whose payload is being read
  char* payload_ = nullptr;      // null: a message that is dropped
  int64_t payload_left_ = 0;
  bool has_left_ = false;
};

}  // namespace plait
