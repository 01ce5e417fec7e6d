// Runs a Rendezvous over a Net, on the calling thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/comm/frame_channel.h"
#include "engine/comm/rendezvous.h"
#include "kernels/base/env.h"
#include "kernels/base/net.h"

namespace plait {

/// Connections to all other processes, by index of their cards; null for the own one.
struct Connections {
  std::vector<std::unique_ptr<FrameChannel>> control;
  std::vector<std::unique_ptr<Socket>> data;
};

class RendezvousDriver {
 public:
  /// `listeners` are those that others come to. `waker` ends a wait when `is_aborted` was set.
  RendezvousDriver(Net& net, Clock& clock, std::vector<Listener*> listeners, Waker& waker,
                   std::atomic<bool>& is_aborted);
  /// Until the meeting is complete; throws its error, or `aborted`.
  Connections run(Rendezvous* meeting);

 private:
  struct Entry {
    std::unique_ptr<FrameChannel> channel;
    bool is_connecting = false;
    bool is_writable = false;  // after the last wait
  };
  void perform(Rendezvous* meeting);
  void connect(Rendezvous* meeting, const RendezvousAction& action);
  void wait();
  void accept_all(Rendezvous* meeting);
  void read(Rendezvous* meeting, int64_t number, Entry* entry);
  Connections collect(const Rendezvous& meeting);

  Net& net_;
  Clock& clock_;
  std::vector<Listener*> listeners_;
  Waker& waker_;
  std::atomic<bool>& is_aborted_;
  std::map<int64_t, Entry> entries_;
  std::vector<Net::Interest> interests_;
};

}  // namespace plait
