// Byte streams over connected sockets, one for each other process.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/streams.h"
#include "kernels/base/net.h"

namespace plait {

class TcpStreams final : public Streams {
 public:
  /// `net` outlives this.
  TcpStreams(Net& net, std::vector<std::unique_ptr<Socket>> sockets);

  int64_t write(int64_t peer, const void* data, int64_t bytes) override;
  int64_t read(int64_t peer, void* data, int64_t bytes) override;
  void wait(std::vector<StreamState>* states, int64_t timeout_ms) override;
  void wake() override { waker_->wake(); }
  const char* name() const override { return "tcp"; }

 private:
  Net& net_;
  std::vector<std::unique_ptr<Socket>> sockets_;
  std::unique_ptr<Waker> waker_;
  std::vector<Net::Interest> interests_;
};

}  // namespace plait
