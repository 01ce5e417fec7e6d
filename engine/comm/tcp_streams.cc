#include "engine/comm/tcp_streams.h"

#include <utility>

namespace plait {

TcpStreams::TcpStreams(Net& net, std::vector<std::unique_ptr<Socket>> sockets)
    : net_(net), sockets_(std::move(sockets)), waker_(net.make_waker()) {
  interests_.reserve(sockets_.size() + 1);
}

int64_t TcpStreams::write(int64_t peer, const void* data, int64_t bytes) {
  const int64_t sent = sockets_[static_cast<size_t>(peer)]->send(data, bytes);
  return sent == Socket::kClosed ? kClosed : sent;
}

int64_t TcpStreams::read(int64_t peer, void* data, int64_t bytes) {
  const int64_t got = sockets_[static_cast<size_t>(peer)]->receive(data, bytes);
  return got == Socket::kClosed ? kClosed : got;
}

void TcpStreams::wait(std::vector<StreamState>* states, int64_t timeout_ms) {
  interests_.clear();
  for (size_t i = 0; i < states->size(); ++i) {
    StreamState& state = (*states)[i];
    state.is_readable = false;
    if (state.is_ignored) continue;
    Net::Interest interest;
    interest.socket = sockets_[i].get();
    interest.wants_read = true;
    interest.wants_write = state.wants_write;
    interests_.push_back(interest);
  }
  Net::Interest interest;
  interest.waker = waker_.get();
  interest.wants_read = true;
  interests_.push_back(interest);
  net_.wait(&interests_, timeout_ms);
  size_t next = 0;
  for (StreamState& state : *states) {
    if (!state.is_ignored) state.is_readable = interests_[next++].is_readable;
  }
}

}  // namespace plait
