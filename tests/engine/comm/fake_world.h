// Processes of a world that have met already, in one process: what attach_link needs of a world.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/comm/world.h"
#include "tests/engine/comm/link_rig.h"

namespace plait::test {

/// What the processes have in common.
class FakeMeeting {
 public:
  /// Hosts of the processes, each of which drives one rank.
  explicit FakeMeeting(std::vector<std::string> hosts);

  const std::vector<WorldPeer>& peers() const { return peers_; }
  std::unique_ptr<Socket> take_socket(size_t own, size_t peer) {
    return std::move(sockets_[own][peer]);
  }
  /// All values by process once all have come; throws `deadline`.
  std::vector<std::string> exchange(size_t own, const std::string& name, const std::string& value);

 private:
  struct Round {
    std::map<size_t, std::string> values;
  };
  std::vector<WorldPeer> peers_;
  std::vector<std::vector<std::unique_ptr<Socket>>> sockets_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Round> rounds_;
};

class FakeWorld final : public World {
 public:
  FakeWorld(FakeMeeting& meeting, size_t own, const std::string& transport, Log* log = nullptr);

  std::string card() override { return ""; }
  void add_card(const std::string&) override {}
  void commit(int64_t) override {}
  void join_kv(KeyValueStore&, int64_t) override {}
  void join_tcp(const std::string&, int64_t) override {}
  bool is_complete() const override { return true; }
  const WorldOptions& options() const override { return options_; }
  const std::vector<WorldPeer>& peers() const override { return meeting_.peers(); }
  int64_t own_peer() const override { return static_cast<int64_t>(own_); }
  Fabric& fabric() override { return *fabric_; }
  std::unique_ptr<Socket> take_data_socket(int64_t peer) override {
    return meeting_.take_socket(own_, static_cast<size_t>(peer));
  }
  std::vector<std::string> exchange(const std::string& name, const std::string& value, int64_t,
                                    ExchangeStream) override {
    return meeting_.exchange(own_, name, value);
  }
  void end_exchange(ExchangeStream) override {}
  void abort(const Error& error) override { fabric_->abort(error); }
  std::optional<Error> verdict(int64_t) override { return fabric_->abort_error(); }
  void leave(int64_t) override {}
  int64_t dropped() const override { return 0; }

  std::unique_ptr<Fabric> take_fabric() { return std::move(fabric_); }

 private:
  FakeMeeting& meeting_;
  const size_t own_;
  WorldOptions options_;
  std::unique_ptr<Fabric> fabric_;
};

}  // namespace plait::test
