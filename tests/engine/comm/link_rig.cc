#include "tests/engine/comm/link_rig.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <utility>

#include "engine/comm/shm_streams.h"
#include "engine/comm/stream_link.h"
#include "engine/comm/tcp_streams.h"

namespace plait::test {
namespace {

std::vector<RemoteRanks> others_of(const Fabrics& fabrics, size_t own) {
  std::vector<RemoteRanks> others;
  for (size_t i = 0; i < fabrics.size(); ++i) {
    const Fabric::Options& options = fabrics[i]->options();
    if (i != own) others.push_back({options.first_rank, options.local_ranks});
  }
  return others;
}

std::vector<std::unique_ptr<Streams>> tcp_streams(size_t processes) {
  // [process][peer process]
  std::vector<std::vector<std::unique_ptr<Socket>>> sockets(processes);
  for (auto& row : sockets) row.resize(processes);
  for (size_t i = 0; i < processes; ++i) {
    for (size_t j = i + 1; j < processes; ++j) {
      std::tie(sockets[i][j], sockets[j][i]) = connect_pair(posix_net());
    }
  }
  std::vector<std::unique_ptr<Streams>> streams;
  for (size_t i = 0; i < processes; ++i) {
    std::vector<std::unique_ptr<Socket>> row;
    for (size_t j = 0; j < processes; ++j) {
      if (j != i) row.push_back(std::move(sockets[i][j]));
    }
    streams.push_back(std::make_unique<TcpStreams>(posix_net(), std::move(row)));
  }
  return streams;
}

std::vector<std::unique_ptr<Streams>> shm_streams(size_t processes) {
  auto shared = share_segments(posix_shared_memory(), static_cast<int64_t>(processes));
  std::vector<std::unique_ptr<Streams>> streams;
  for (size_t i = 0; i < processes; ++i) {
    streams.push_back(std::make_unique<ShmStreams>(posix_shared_memory(), static_cast<int64_t>(i),
                                                   std::move(shared[i])));
  }
  return streams;
}

}  // namespace

std::pair<std::unique_ptr<Socket>, std::unique_ptr<Socket>> connect_pair(Net& net) {
  const std::unique_ptr<Listener> listener = net.listen("127.0.0.1:0");
  std::unique_ptr<Socket> near = net.connect(listener->address(), 5000), far;
  while (far == nullptr) {
    std::vector<Net::Interest> interests(1);
    interests[0].listener = listener.get();
    interests[0].wants_read = true;
    net.wait(&interests, 1000);
    far = listener->accept();
  }
  return {std::move(near), std::move(far)};
}

std::vector<std::vector<std::unique_ptr<SharedSegment>>> share_segments(SharedMemory& memory,
                                                                        int64_t processes) {
  const int64_t bytes = ShmStreams::segment_bytes(processes);
  std::vector<std::vector<std::unique_ptr<SharedSegment>>> shared(static_cast<size_t>(processes));
  for (auto& row : shared) row.resize(static_cast<size_t>(processes));
  for (size_t owner = 0; owner < shared.size(); ++owner) {
    shared[owner][owner] = memory.create(bytes);
    for (size_t i = 0; i < shared.size(); ++i) {
      if (i != owner) shared[i][owner] = memory.open(shared[owner][owner]->name(), bytes);
    }
    shared[owner][owner]->unlink();
  }
  return shared;
}

Fabrics join_processes(const std::vector<int64_t>& local_ranks, const std::string& transport,
                       int64_t wait_limit_ms) {
  const int64_t world = std::accumulate(local_ranks.begin(), local_ranks.end(), int64_t{0});
  Fabrics fabrics;
  int64_t first = 0;
  for (int64_t local : local_ranks) {
    const bool may_spin = fabrics.size() % 2 == 0;
    fabrics.push_back(std::make_unique<Fabric>(
        Fabric::Options{world, first, local, wait_limit_ms, may_spin, 0}, posix_env().clock));
    first += local;
  }
  auto streams = transport == "tcp" ? tcp_streams(fabrics.size()) : shm_streams(fabrics.size());
  for (size_t i = 0; i < fabrics.size(); ++i) {
    fabrics[i]->attach(std::make_unique<StreamLink>(*fabrics[i], posix_env().clock,
                                                    others_of(fabrics, i), std::move(streams[i])));
  }
  return fabrics;
}

Outcomes run_processes_to_end(const Fabrics& fabrics,
                              const std::function<void(Communicator&)>& body, bool is_aborting) {
  std::vector<Fabric*> all;
  for (const std::unique_ptr<Fabric>& fabric : fabrics) all.push_back(fabric.get());
  const int64_t world = fabrics.front()->options().world;
  const auto rank_body = [&](int64_t rank) {
    for (Fabric* fabric : all) {
      if (!fabric->is_local(rank)) continue;
      Communicator group(fabric->endpoint(rank), "world", 1, first_ranks(world), nullptr);
      body(group);
    }
  };
  return run_ranks(all, rank_body, {60'000, is_aborting});
}

void run_processes(const Fabrics& fabrics, const std::function<void(Communicator&)>& body) {
  for (const std::optional<Error>& outcome : run_processes_to_end(fabrics, body, true)) {
    INFO((outcome ? outcome->message() : ""));
    REQUIRE(!outcome);
  }
}

}  // namespace plait::test
