#include "engine/comm/stream_outbox.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kStaging = 64 << 10;
/// A message that does not fit into the staging area goes there with its first bytes, so that no
/// frame travels alone.
constexpr int64_t kPrefix = 8 << 10;
/// Written at a time: `drop` waits for no more than this.
constexpr int64_t kWritePiece = 1 << 20;
constexpr std::chrono::milliseconds kTick{10};

}  // namespace

StreamOutbox::StreamOutbox() : staging_(std::make_unique<char[]>(static_cast<size_t>(kStaging))) {}

void StreamOutbox::make_ready(Channel* channel) {
  channel->next = nullptr;
  (ready_last_ == nullptr ? ready_first_ : ready_last_->next) = channel;
  ready_last_ = channel;
}

void StreamOutbox::add(const MessageHead& head, const void* data, std::atomic<bool>* is_sent) {
  const std::lock_guard lock(mutex_);
  if (is_dropped_) return is_sent->store(true);
  Channel& channel = channels_[channel_of(head)];
  check(!channel.is_waiting, "a channel sends one message at a time");
  channel.head = head;
  channel.data = data;
  channel.is_sent = is_sent;
  channel.is_waiting = true;
  if (!channel.is_outstanding) make_ready(&channel);
}

void StreamOutbox::add_release(const MessageHead& head) {
  const std::lock_guard lock(mutex_);
  if (is_dropped_) return;
  if (releases_done_ == releases_.size()) {
    releases_.clear();
    releases_done_ = 0;
  }
  releases_.push_back(head);
}

void StreamOutbox::acknowledge(const MessageHead& head) {
  const std::lock_guard lock(mutex_);
  if (is_dropped_) return;
  const auto found = channels_.find(channel_of(head));
  if (found == channels_.end() || !found->second.is_outstanding) {
    throw Error("corrupt", "a message was released that was not sent")
        .with("source", head.source)
        .with("destination", head.destination)
        .with("communicator", head.communicator)
        .with("sequence", head.sequence)
        .subsystem("comm");
  }
  found->second.is_outstanding = false;
  if (found->second.is_waiting) make_ready(&found->second);
}

void StreamOutbox::add_leave() {
  const std::lock_guard lock(mutex_);
  is_leaving_ = true;
}

void StreamOutbox::put(StreamFrameKind kind, const MessageHead& head) {
  const StreamFrame frame{kind, 0, head};
  std::memcpy(staging_.get() + end_, &frame, sizeof frame);
  end_ += static_cast<int64_t>(sizeof frame);
}

void StreamOutbox::put_message(Channel* channel) {
  put(StreamFrameKind::kMessage, channel->head);
  const int64_t bytes = channel->head.bytes, room = kStaging - end_;
  const int64_t copied = bytes <= room ? bytes : std::min(room, kPrefix);
  if (copied > 0) std::memcpy(staging_.get() + end_, channel->data, static_cast<size_t>(copied));
  end_ += copied;
  channel->is_waiting = false;
  channel->is_outstanding = true;
  const Finished finished{channel->is_sent, channel->head.source};
  if (copied == bytes) return finished_.push_back(finished);
  payload_ = static_cast<const char*>(channel->data) + copied;
  payload_left_ = bytes - copied;
  payload_finished_ = finished;
}

void StreamOutbox::compose() {
  begin_ = end_ = 0;
  const auto has_room = [&] {
    return end_ + static_cast<int64_t>(sizeof(StreamFrame)) <= kStaging;
  };
  for (; releases_done_ < releases_.size() && has_room(); ++releases_done_) {
    put(StreamFrameKind::kRelease, releases_[releases_done_]);
  }
  while (ready_first_ != nullptr && payload_left_ == 0 && has_room()) {
    Channel* channel = ready_first_;
    ready_first_ = channel->next;
    if (ready_first_ == nullptr) ready_last_ = nullptr;
    put_message(channel);
  }
  if (is_leaving_ && !has_left_ && end_ == 0) {
    put(StreamFrameKind::kLeave, MessageHead());
    has_left_ = true;
  }
}

void StreamOutbox::advance(int64_t bytes) {
  if (begin_ < end_) {
    begin_ += bytes;
    return;
  }
  payload_ += bytes;
  payload_left_ -= bytes;
  if (payload_left_ == 0) finished_.push_back(payload_finished_);
}

void StreamOutbox::announce(Sent sent) {
  for (const Finished& finished : finished_) {
    finished.is_sent->store(true);
    sent(finished.rank);
  }
  finished_.clear();
}

StreamOutbox::Progress StreamOutbox::write_all(std::unique_lock<std::mutex>& lock, Write write,
                                               Sent sent, int64_t budget) {
  for (;;) {
    if (!finished_.empty()) {
      lock.unlock();
      announce(sent);
      lock.lock();
    }
    // What is staged may still go out after a drop; the payload behind it may not.
    if (is_broken_) {
      const bool is_lost = ready_first_ != nullptr || payload_left_ > 0;
      return is_lost ? Progress::kClosed : Progress::kIdle;
    }
    if (is_dropped_ && payload_left_ > 0) return Progress::kIdle;
    if (begin_ == end_ && payload_left_ == 0) {
      compose();
      if (end_ == 0) return Progress::kIdle;
      continue;
    }
    if (budget <= 0) return Progress::kMore;
    const bool is_staged = begin_ < end_;
    const char* from = is_staged ? staging_.get() + begin_ : payload_;
    const int64_t want = is_staged ? end_ - begin_ : std::min(payload_left_, kWritePiece);
    lock.unlock();
    const int64_t taken = write(from, want);
    lock.lock();
    if (taken < 0) {
      is_broken_ = true;
      continue;
    }
    advance(taken);
    budget -= taken;
    if (taken < want) return Progress::kBlocked;
  }
}

StreamOutbox::Progress StreamOutbox::pump(Write write, Sent sent, int64_t budget) {
  std::unique_lock lock(mutex_);
  if (is_pumping_) return Progress::kBusy;
  is_pumping_ = true;
  try {
    const Progress progress = write_all(lock, write, sent, budget);
    is_pumping_ = false;
    if (is_dropped_) pumped_.notify_all();
    return progress;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    is_pumping_ = false;
    is_broken_ = true;
    pumped_.notify_all();
    throw;
  }
}

void StreamOutbox::drop() {
  std::unique_lock lock(mutex_);
  is_dropped_ = true;
  while (is_pumping_) pumped_.wait_for(lock, kTick);
  if (payload_left_ > 0) {
    is_broken_ = true;
    payload_left_ = 0;
    payload_finished_.is_sent->store(true);
  }
  for (auto& [key, channel] : channels_) {
    if (channel.is_waiting) channel.is_sent->store(true);
    channel.is_waiting = false;
  }
  ready_first_ = ready_last_ = nullptr;
  releases_.clear();
  releases_done_ = 0;
}

}  // namespace plait
