#include "tests/engine/comm/rig.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace plait::test {

std::vector<int64_t> first_ranks(int64_t count) {
  std::vector<int64_t> ranks(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) ranks[static_cast<size_t>(i)] = i;
  return ranks;
}

Outcomes run_ranks(const std::vector<Fabric*>& fabrics, const std::function<void(int64_t)>& body,
                   const RunOptions& options) {
  Outcomes outcomes(static_cast<size_t>(fabrics.front()->options().world));
  const auto abort_all = [&](const Error& error) {
    for (Fabric* fabric : fabrics) fabric->abort(error);
  };
  std::mutex mutex;
  std::condition_variable done;
  size_t running = 0;
  std::vector<std::thread> threads;
  for (Fabric* fabric : fabrics) {
    for (int64_t i = 0; i < fabric->options().local_ranks; ++i) {
      const int64_t rank = fabric->options().first_rank + i;
      {
        const std::lock_guard lock(mutex);
        ++running;
      }
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (const Error& error) {
          outcomes[static_cast<size_t>(rank)] = error;
          if (options.is_aborting) abort_all(error);
        }
        const std::lock_guard lock(mutex);
        --running;
        done.notify_all();
      });
    }
  }
  bool is_in_time = false;
  {
    std::unique_lock lock(mutex);
    is_in_time = done.wait_for(lock, std::chrono::milliseconds(options.deadline_ms),
                               [&] { return running == 0; });
  }
  if (!is_in_time) abort_all(Error("deadline", "the ranks of a test did not end"));
  for (std::thread& thread : threads) thread.join();
  CHECK(is_in_time);
  return outcomes;
}

void run_world(Fabric& fabric, const std::function<void(Communicator&)>& body, ThreadPool* pool) {
  const int64_t world = fabric.options().world;
  const Outcomes outcomes = run_ranks({&fabric}, [&](int64_t rank) {
    Communicator group(fabric.endpoint(rank), "world", 1, first_ranks(world), pool);
    body(group);
  });
  for (const std::optional<Error>& outcome : outcomes) {
    INFO((outcome ? outcome->message() : ""));
    REQUIRE(!outcome);
  }
}

std::string word_of(const std::optional<Error>& outcome) {
  return outcome ? outcome->word() : std::string();
}

float sample_value(int64_t rank, int64_t index) {
  const auto mixed = static_cast<uint32_t>(rank * 2654435761 + index * 40503 + 12345) * 2246822519u;
  const float mantissa = static_cast<float>(mixed >> 8) / 16777216.0f - 0.5f;
  return std::ldexp(mantissa, static_cast<int>(mixed % 9));
}

}  // namespace plait::test
