#include "tests/engine/comm/fake_world.h"

#include <chrono>

namespace plait::test {

FakeMeeting::FakeMeeting(std::vector<std::string> hosts) : sockets_(hosts.size()) {
  for (size_t i = 0; i < hosts.size(); ++i) {
    peers_.push_back({static_cast<int64_t>(i), 1, "", hosts[i], static_cast<int64_t>(i)});
    sockets_[i].resize(hosts.size());
  }
  for (size_t i = 0; i < hosts.size(); ++i) {
    for (size_t j = i + 1; j < hosts.size(); ++j) {
      std::tie(sockets_[i][j], sockets_[j][i]) = connect_pair(posix_net());
    }
  }
}

std::vector<std::string> FakeMeeting::exchange(size_t own, const std::string& name,
                                               const std::string& value) {
  std::unique_lock lock(mutex_);
  Round& round = rounds_[name];
  round.values[own] = value;
  changed_.notify_all();
  if (!changed_.wait_for(lock, std::chrono::seconds(20),
                         [&] { return round.values.size() == peers_.size(); })) {
    throw Error("deadline", "a process did not come").with("name", name);
  }
  std::vector<std::string> values;
  for (const auto& [process, bytes] : round.values) values.push_back(bytes);
  return values;
}

FakeWorld::FakeWorld(FakeMeeting& meeting, size_t own, const std::string& transport, Log* log)
    : meeting_(meeting), own_(own) {
  options_.world = static_cast<int64_t>(meeting.peers().size());
  options_.first_rank = static_cast<int64_t>(own);
  options_.transport = transport;
  options_.log = log;
  fabric_ = std::make_unique<Fabric>(
      Fabric::Options{options_.world, options_.first_rank, 1, 20'000, false, 0}, posix_env().clock);
}

}  // namespace plait::test
