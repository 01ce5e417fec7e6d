// What waits to be written to one other process: messages whose channel is free, and releases.
//
// A channel carries one message until its receiver has released it; the next one waits here. Small
// messages are copied and go out together, the rest is written from where it lies.
//
// Thread: any. One thread at a time writes (`pump`); what others add meanwhile is seen by it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/comm/stream_frame.h"
#include "kernels/base/function_ref.h"

namespace plait {

class StreamOutbox {
 public:
  enum class Progress {
    kIdle,     ///< nothing is left that may be written
    kBlocked,  ///< the stream takes no more at present
    kMore,     ///< the budget is spent
    kBusy,     ///< another thread writes
    kClosed,   ///< the stream is closed and messages are left; a release is of no use to who has
               ///< left
  };
  /// As Streams::write for this peer.
  using Write = FunctionRef<int64_t(const void* data, int64_t bytes)>;
  /// Told of each source whose message is sent, without a lock held.
  using Sent = FunctionRef<void(int64_t rank)>;

  StreamOutbox();

  /// As Link::send.
  void add(const MessageHead& head, const void* data, std::atomic<bool>* is_sent);
  /// A message from that process is released.
  void add_release(const MessageHead& head);
  /// That process has released the message with this head. Throws `corrupt` when none is under way.
  void acknowledge(const MessageHead& head);
  /// The last frame: this process leaves.
  void add_leave();
  /// Writes up to about `budget` bytes. What `write` throws passes through; nothing is written then
  /// or later.
  Progress pump(Write write, Sent sent, int64_t budget);
  /// Forgets all messages: `data` of none is touched after it returns. Later ones count as sent.
  void drop();

 private:
  struct Channel {
    MessageHead head;
    const void* data = nullptr;
    std::atomic<bool>* is_sent = nullptr;
    bool is_waiting = false;      ///< head, data and is_sent are of a message to send
    bool is_outstanding = false;  ///< the one before is not released
    Channel* next = nullptr;      ///< in the ready list
  };
  struct Finished {
    std::atomic<bool>* is_sent = nullptr;
    int32_t rank = 0;
  };
  void make_ready(Channel* channel);
  void compose();
  void put(StreamFrameKind kind, const MessageHead& head);
  void put_message(Channel* channel);
  void advance(int64_t bytes);
  void announce(Sent sent);
  Progress write_all(std::unique_lock<std::mutex>& lock, Write write, Sent sent, int64_t budget);

  std::mutex mutex_;  // guards all below but what the writing thread owns
  std::condition_variable pumped_;
  std::map<ChannelKey, Channel> channels_;
  Channel* ready_first_ = nullptr;
  Channel* ready_last_ = nullptr;
  std::vector<MessageHead> releases_;
  size_t releases_done_ = 0;
  bool is_leaving_ = false, has_left_ = false;
  bool is_pumping_ = false, is_dropped_ = false;
  bool is_broken_ = false;  // closed, or the payload of a frame was dropped midway

  // Owned by the thread that pumps.
  std::unique_ptr<char[]> staging_;
  int64_t begin_ = 0, end_ = 0;  // of what is staged
  const char* payload_ = nullptr;
  int64_t payload_left_ = 0;
  Finished payload_finished_;
  std::vector<Finished> finished_;
};

}  // namespace plait
