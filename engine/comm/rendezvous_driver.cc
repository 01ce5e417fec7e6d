#include "engine/comm/rendezvous_driver.h"

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kRendezvousTickMs = 20;
constexpr int64_t kConnectMs = 200;  // an abort is seen in between
constexpr int kAcceptsAtOnce = 64;

}  // namespace

RendezvousDriver::RendezvousDriver(Net& net, Clock& clock, std::vector<Listener*> listeners,
                                   Waker& waker, std::atomic<bool>& is_aborted)
    : net_(net),
      clock_(clock),
      listeners_(std::move(listeners)),
      waker_(waker),
      is_aborted_(is_aborted) {}

Connections RendezvousDriver::run(Rendezvous* meeting) {
  for (;;) {
    perform(meeting);
    if (meeting->state() == Rendezvous::State::kFailed) throw meeting->error();
    if (meeting->state() == Rendezvous::State::kComplete) return collect(*meeting);
    if (is_aborted_.exchange(false)) {
      meeting->abandon(
          Error("aborted", "the meeting was ended by its host").subsystem("engine/comm"));
      continue;
    }
    wait();
    try {
      accept_all(meeting);
    } catch (const Error& error) {
      if (!meeting->drop_stranger()) meeting->fail(error);
    }
    std::vector<int64_t> numbers;
    for (const auto& [number, entry] : entries_) numbers.push_back(number);
    for (const int64_t number : numbers) {
      const auto found = entries_.find(number);
      if (found != entries_.end()) read(meeting, number, &found->second);
    }
    meeting->time(clock_.now_ns());
  }
}

void RendezvousDriver::perform(Rendezvous* meeting) {
  // What is done may ask for more: connecting can fail at once.
  for (auto actions = meeting->take_actions(); !actions.empty();
       actions = meeting->take_actions()) {
    for (RendezvousAction& action : actions) {
      if (action.kind == RendezvousAction::Kind::kConnect) {
        connect(meeting, action);
        continue;
      }
      const auto found = entries_.find(action.connection);
      if (found == entries_.end()) continue;
      if (action.kind == RendezvousAction::Kind::kSend) {
        found->second.channel->queue(action.frame, 0, std::move(action.body));
        found->second.channel->flush();
      } else {
        entries_.erase(found);
      }
    }
  }
}

void RendezvousDriver::connect(Rendezvous* meeting, const RendezvousAction& action) {
  try {
    std::unique_ptr<Socket> socket = action.may_wait ? net_.connect(action.address, kConnectMs)
                                                     : net_.start_connect(action.address);
    const std::string peer = socket->peer();
    auto channel = std::make_unique<FrameChannel>(std::move(socket), Rendezvous::kStrangerLimit);
    entries_[action.connection] = {std::move(channel), !action.may_wait, false};
    if (action.may_wait) meeting->connected(action.connection, peer);
  } catch (const Error& error) {
    if (error.code() == Code::kResourceExhausted) {
      meeting->fail(error);
    } else {
      meeting->closed(action.connection, clock_.now_ns(), &error);
    }
  }
}

void RendezvousDriver::wait() {
  interests_.clear();
  for (Listener* const listener : listeners_) interests_.push_back({.listener = listener});
  interests_.push_back({.waker = &waker_});
  for (auto& [number, entry] : entries_) {
    interests_.push_back({.socket = entry.channel->socket(),
                          .wants_read = true,
                          .wants_write = entry.is_connecting || entry.channel->wants_write()});
  }
  net_.wait(&interests_, kRendezvousTickMs);
  size_t at = listeners_.size() + 1;
  for (auto& [number, entry] : entries_) {
    const Net::Interest& interest = interests_[at++];
    entry.is_writable = interest.is_writable;
    if (interest.is_writable) entry.channel->flush();
  }
}

void RendezvousDriver::accept_all(Rendezvous* meeting) {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    if (!interests_[i].is_readable) continue;
    for (int count = 0; count < kAcceptsAtOnce; ++count) {
      std::unique_ptr<Socket> socket = listeners_[i]->accept();
      if (socket == nullptr) break;
      const int64_t number = meeting->accepted(socket->peer(), clock_.now_ns());
      entries_[number].channel =
          std::make_unique<FrameChannel>(std::move(socket), Rendezvous::kStrangerLimit);
    }
  }
}

void RendezvousDriver::read(Rendezvous* meeting, int64_t number, Entry* entry) {
  FrameChannel& channel = *entry->channel;
  channel.fill();
  if (entry->is_connecting && entry->is_writable && !channel.is_closed()) {
    entry->is_connecting = false;
    meeting->connected(number, channel.socket()->peer());
  }
  Frame frame;
  for (;;) {
    if (meeting->state() != Rendezvous::State::kRunning) return;
    channel.set_limit(meeting->is_trusted(number) ? Rendezvous::kCardsLimit
                                                  : Rendezvous::kStrangerLimit);
    if (!channel.next(&frame)) break;
    meeting->received(number, frame, clock_.now_ns());
  }
  if (channel.fault() != FrameFault::kNone) {
    meeting->garbled(number, channel.fault(), clock_.now_ns());
  } else if (channel.is_closed()) {
    meeting->closed(number, clock_.now_ns());
    entries_.erase(number);
  }
}

Connections RendezvousDriver::collect(const Rendezvous& meeting) {
  Connections connections;
  for (size_t peer = 0; peer < meeting.cards().cards().size(); ++peer) {
    if (peer == meeting.cards().own_index()) {
      connections.control.push_back(nullptr);
      connections.data.push_back(nullptr);
      continue;
    }
    Entry& control = entries_.at(meeting.connection(peer, Purpose::kControl));
    Entry& data = entries_.at(meeting.connection(peer, Purpose::kData));
    connections.control.push_back(std::move(control.channel));
    connections.data.push_back(data.channel->release());
  }
  return connections;
}

}  // namespace plait
