// Ranks as threads: build, run ranks, compare. Every run has a deadline, after which the fabric is
// aborted and the test fails.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/endpoint.h"
#include "engine/comm/fabric.h"
#include "kernels/base/env.h"

namespace plait::test {

inline std::unique_ptr<Fabric> thread_fabric(int64_t world, int64_t wait_limit_ms = 20'000,
                                             bool may_spin = false) {
  return std::make_unique<Fabric>(Fabric::Options{world, 0, world, wait_limit_ms, may_spin, 0},
                                  posix_env().clock);
}

/// 0, 1, …, count − 1.
std::vector<int64_t> first_ranks(int64_t count);

/// What a run of ranks ended with, by rank.
using Outcomes = std::vector<std::optional<Error>>;

struct RunOptions {
  int64_t deadline_ms = 60'000;
  bool is_aborting = true;  ///< a rank that throws aborts the fabrics, as a rank's entry does
};

/// Runs body(rank) in a thread for each local rank of each fabric and waits for all.
Outcomes run_ranks(const std::vector<Fabric*>& fabrics, const std::function<void(int64_t)>& body,
                   const RunOptions& options = {});

/// The same; fails the test when a rank throws. body(communicator) gets the group of all ranks.
void run_world(Fabric& fabric, const std::function<void(Communicator&)>& body,
               ThreadPool* pool = nullptr);

/// Word of an outcome, "" for none.
std::string word_of(const std::optional<Error>& outcome);

/// A value of element `index` at `rank`, of many magnitudes, so that the order of a sum shows.
float sample_value(int64_t rank, int64_t index);

}  // namespace plait::test
