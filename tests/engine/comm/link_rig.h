// Several processes of a world as several fabrics of this one, joined by links.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/streams.h"
#include "kernels/base/net.h"
#include "kernels/base/shared_memory.h"
#include "tests/engine/comm/rig.h"

namespace plait::test {

using Fabrics = std::vector<std::unique_ptr<Fabric>>;

/// One process for each entry, which drives so many ranks; `transport` is "tcp" or "shm". Ranks of
/// every other process look into their link before they sleep.
Fabrics join_processes(const std::vector<int64_t>& local_ranks, const std::string& transport,
                       int64_t wait_limit_ms = 20'000);

/// The two ends of a connection over loopback.
std::pair<std::unique_ptr<Socket>, std::unique_ptr<Socket>> connect_pair(Net& net);

/// Shared memory of `processes`, each of which maps all segments: [process][segment].
std::vector<std::vector<std::unique_ptr<SharedSegment>>> share_segments(SharedMemory& memory,
                                                                        int64_t processes);

/// Runs body(communicator) in a thread for each rank of all fabrics, in the group of all ranks;
/// fails the test when a rank throws.
void run_processes(const Fabrics& fabrics, const std::function<void(Communicator&)>& body);

/// The same where ranks may throw.
Outcomes run_processes_to_end(const Fabrics& fabrics,
                              const std::function<void(Communicator&)>& body,
                              bool is_aborting = false);

}  // namespace plait::test
