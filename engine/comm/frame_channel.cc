#include "engine/comm/frame_channel.h"

namespace plait {
namespace {

constexpr int64_t kReadBytes = 64 * 1024;
constexpr int kReadsAtOnce = 16;

}  // namespace

void FrameChannel::queue(FrameKind kind, uint64_t epoch, std::string body) {
  if (is_closed_) return;
  if (sent_ == output_.size()) {
    output_.clear();
    sent_ = 0;
  }
  output_ += encode_frame({kind, epoch, sequence_++, std::move(body)});
}

void FrameChannel::flush() {
  while (wants_write()) {
    const int64_t put =
        socket_->send(output_.data() + sent_, static_cast<int64_t>(output_.size() - sent_));
    if (put == Socket::kClosed) {
      // What the peer sent before is still to be read: only reading finds the end.
      output_.clear();
      sent_ = 0;
      return;
    }
    if (put == 0) return;
    sent_ += static_cast<size_t>(put);
  }
}

bool FrameChannel::fill() {
  char bytes[kReadBytes];
  bool is_any = false;
  for (int i = 0; i < kReadsAtOnce && !is_closed_; ++i) {
    const int64_t got = socket_->receive(bytes, kReadBytes);
    if (got == 0) break;
    if (got == Socket::kClosed) {
      is_closed_ = true;
      break;
    }
    reader_.add(std::string_view(bytes, static_cast<size_t>(got)));
    is_any = true;
    if (got < kReadBytes) break;
  }
  return is_any;
}

}  // namespace plait
