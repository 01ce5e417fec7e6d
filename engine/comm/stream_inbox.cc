#include "engine/comm/stream_inbox.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kBuffer = 64 << 10;
/// The rest of a payload is read in place from here on; less comes with what follows it.
constexpr int64_t kInPlace = 16 << 10;
constexpr int64_t kReadPiece = 1 << 20;
constexpr int64_t kFrame = static_cast<int64_t>(sizeof(StreamFrame));

}  // namespace

StreamInbox::StreamInbox(Fabric& fabric, StreamOutbox& outbox, const RemoteRanks& ranks)
    : fabric_(fabric),
      outbox_(outbox),
      ranks_(ranks),
      buffer_(std::make_unique<char[]>(static_cast<size_t>(kBuffer))) {}

StreamInbox::Progress StreamInbox::take(Read read, int64_t budget) {
  while (budget > 0) {
    int64_t got = 0, want = 0;
    if (begin_ == end_ && payload_ != nullptr && payload_left_ >= kInPlace) {
      want = std::min(payload_left_, kReadPiece);
      got = read(payload_, want);
      if (got > 0) {
        payload_ += got;
        payload_left_ -= got;
        if (payload_left_ == 0) end_message();
      }
    } else {
      if (begin_ > 0) {
        std::memmove(buffer_.get(), buffer_.get() + begin_, static_cast<size_t>(end_ - begin_));
        end_ -= begin_;
        begin_ = 0;
      }
      want = kBuffer - end_;
      got = read(buffer_.get() + end_, want);
      if (got > 0) {
        end_ += got;
        parse();
      }
    }
    if (got < 0) return Progress::kClosed;
    if (got < want) return Progress::kEmpty;
    budget -= got;
  }
  return Progress::kMore;
}

void StreamInbox::parse() {
  for (;;) {
    if (payload_left_ > 0) copy_payload();
    if (payload_left_ > 0 || end_ - begin_ < kFrame) return;
    StreamFrame frame;
    std::memcpy(&frame, buffer_.get() + begin_, sizeof frame);
    begin_ += kFrame;
    begin(frame);
  }
}

void StreamInbox::begin(const StreamFrame& frame) {
  const MessageHead& head = frame.head;
  bool is_valid = !has_left_;
  switch (frame.kind) {
    case StreamFrameKind::kLeave:
      has_left_ = true;
      break;
    case StreamFrameKind::kRelease:
      is_valid = is_valid && ranks_.contains(head.destination) && fabric_.is_local(head.source);
      if (is_valid) outbox_.acknowledge(head);
      break;
    case StreamFrameKind::kMessage:
      is_valid = is_valid && ranks_.contains(head.source) && fabric_.is_local(head.destination);
      if (!is_valid) break;
      head_ = head;
      payload_ = static_cast<char*>(fabric_.place(head));
      payload_left_ = head.bytes;
      if (payload_left_ == 0) end_message();
      break;
    default:
      is_valid = false;
  }
  if (is_valid) return;
  throw Error("corrupt", "bytes between processes are no frame")
      .with("rank", ranks_.first_rank)
      .with("kind", static_cast<uint32_t>(frame.kind))
      .with("source", head.source)
      .with("destination", head.destination)
      .rank(static_cast<int32_t>(ranks_.first_rank))
      .subsystem("comm");
}

void StreamInbox::copy_payload() {
  const int64_t bytes = std::min(payload_left_, end_ - begin_);
  if (payload_ != nullptr) {
    std::memcpy(payload_, buffer_.get() + begin_, static_cast<size_t>(bytes));
    payload_ += bytes;
  }
  begin_ += bytes;
  payload_left_ -= bytes;
  if (payload_left_ == 0) end_message();
}

void StreamInbox::end_message() {
  if (payload_ != nullptr) fabric_.deliver(head_);
  payload_ = nullptr;
}

}  // namespace plait
