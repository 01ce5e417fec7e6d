// All-reduces and small messages between ranks, checked and then timed:
//   bench_collectives threads   ranks of this process, in turns with the loop that no all-reduce
//                               beats
//   bench_collectives shm|tcp   this process and a copy of it
// JSON lines.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/endpoint.h"
#include "engine/comm/fabric.h"
#include "engine/comm/world.h"
#include "kernels/base/env.h"
#include "kernels/base/net.h"
#include "kernels/device/device.h"
#include "tests/bench/collective_ranks.h"
#include "tests/bench/exchange_loops.h"
#include "tests/bench/exchange_plan.h"
#include "tests/bench/measure.h"
#include "tests/bench/raw_round_trips.h"
#include "tests/bench/two_processes.h"

namespace plait::bench {
namespace {

constexpr int kRounds = 3;  // of ceiling and all-reduce
constexpr int64_t kLimitMs = 60'000;

using Seconds = std::vector<double>;

void append(Seconds* to, const Seconds& more) { to->insert(to->end(), more.begin(), more.end()); }

std::vector<int64_t> first_members(int64_t count) {
  std::vector<int64_t> members;
  for (int64_t i = 0; i < count; ++i) members.push_back(i);
  return members;
}

/// Runs body(member) in `count` threads and throws what the first of them threw.
void run_threads(int64_t count, const std::function<void(int64_t)>& body,
                 const std::function<void()>& on_failure) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int64_t member = 0; member < count; ++member) {
    threads.emplace_back([&, member] {
      try {
        body(member);
      } catch (...) {
        failures[static_cast<size_t>(member)] = std::current_exception();
        on_failure();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

/// Where a few threads meet again and again.
class SpinBarrier {
 public:
  explicit SpinBarrier(int64_t threads) : threads_(threads) {}
  void wait() {
    const int64_t turn = turn_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    for (int64_t spins = 0; turn_.load(std::memory_order_acquire) == turn; ++spins) {
      if (spins > 20000) std::this_thread::yield();
    }
  }

 private:
  const int64_t threads_;
  alignas(64) std::atomic<int64_t> arrived_{0};
  alignas(64) std::atomic<int64_t> turn_{0};
};

using Buffers = std::vector<std::unique_ptr<ExchangeBuffer>>;

/// Seconds of each sum in place by all cores, or by as many as there are parts.
Seconds time_ceiling(Buffers& buffers, int timed) {
  std::vector<float*> parts;
  for (const auto& buffer : buffers) parts.push_back(buffer->data());
  const auto members = static_cast<int64_t>(parts.size());
  const int64_t count = buffers[0]->count();
  const int64_t threads = std::min<int64_t>(members, usable_cores());
  const SumInPlace sum = sum_in_place(detected_isa().level);
  SpinBarrier barrier(threads);
  Seconds seconds;
  const auto body = [&](int64_t thread) {
    const int64_t first = count / 16 * thread / threads * 16;
    const int64_t last = count / 16 * (thread + 1) / threads * 16;
    for (int i = -kUntimed; i < timed; ++i) {
      barrier.wait();
      const double begin = now();
      sum(parts.data(), members, first, last);
      barrier.wait();
      if (thread == 0 && i >= 0) seconds.push_back(now() - begin);
    }
  };
  run_threads(threads, body, [] {});
  return seconds;
}

void check_ceiling(Buffers& buffers) {
  const auto members = static_cast<int64_t>(buffers.size());
  std::vector<float*> parts;
  for (int64_t member = 0; member < members; ++member) {
    ExchangeBuffer& buffer = *buffers[static_cast<size_t>(member)];
    fill_exchange(buffer.data(), buffer.count(), member);
    parts.push_back(buffer.data());
  }
  const int64_t count = buffers[0]->count();
  sum_in_place(detected_isa().level)(parts.data(), members, 0, count);
  for (const float* part : parts) {
    if (!is_exchange_sum(part, count, members)) {
      throw std::runtime_error("the loop of the ceiling gave a wrong sum");
    }
  }
  for (float* part : parts) std::fill_n(part, count, 0.0f);
}

/// All ranks in this process.
class ThreadRanks {
 public:
  explicit ThreadRanks(int64_t ranks)
      : ranks_(ranks),
        fabric_({ranks, 0, ranks, kLimitMs, usable_cores() >= ranks, 0}, posix_env().clock) {}

  void run(const std::function<void(Communicator&)>& body) {
    const uint32_t id = fabric_.take_group_ids(1);
    run_threads(
        ranks_,
        [&](int64_t rank) {
          Communicator group(fabric_.endpoint(rank), "bench", id, first_members(ranks_), nullptr);
          body(group);
        },
        [&] { fabric_.abort(Error("aborted", "a rank of the benchmark failed")); });
  }

 private:
  int64_t ranks_;
  Fabric fabric_;
};

void measure_threads(int64_t ranks) {
  ThreadRanks threads(ranks);
  for (const ExchangeSize& size : kExchangeSizes) {
    Buffers buffers;
    for (int64_t i = 0; i < ranks; ++i) {
      buffers.push_back(std::make_unique<ExchangeBuffer>(size.bytes));
    }
    const auto check = [&](const char* when) {
      threads.run([&](Communicator& group) {
        check_all_reduce(group, *buffers[static_cast<size_t>(group.index())], when);
      });
    };
    check_ceiling(buffers);
    check("before it was timed");
    Seconds ceiling, reduced;
    for (int round = 0; round < kRounds; ++round) {
      for (const auto& buffer : buffers) std::fill_n(buffer->data(), buffer->count(), 0.0f);
      append(&ceiling, time_ceiling(buffers, size.timed));
      threads.run([&](Communicator& group) {
        const Seconds own =
            time_all_reduces(group, *buffers[static_cast<size_t>(group.index())], size.timed);
        if (group.index() == 0) append(&reduced, own);
      });
    }
    check("after it was timed");
    print_exchange("ceiling", "threads", ranks, size.bytes, ceiling);
    print_exchange("all_reduce", "threads", ranks, size.bytes, reduced);
  }
  Seconds trips;
  threads.run([&](Communicator& group) {
    const Seconds own = time_round_trips(group);
    if (group.index() == 0) trips = own;
  });
  print_exchange("round_trip", "threads", ranks, kPingBytes, trips);
}

std::unique_ptr<World> join(TwoProcesses& processes, const std::string& transport) {
  WorldOptions options;
  options.world = 2;
  options.first_rank = processes.rank();
  options.transport = transport;
  options.may_spin = true;
  auto world = World::create(options, posix_env(), posix_net());
  world->add_card(processes.exchange(world->card()));
  world->commit(kLimitMs);
  world->fabric().set_wait_limit_ms(kLimitMs);
  return world;
}

void measure_processes(TwoProcesses& processes, const std::string& transport) {
  const bool is_first = processes.rank() == 0;
  if (transport == "tcp") {
    const Seconds raw = time_raw_tcp(processes);
    if (is_first) print_exchange("raw_round_trip", transport, 2, kPingBytes, raw);
  }
  const std::unique_ptr<World> world = join(processes, transport);
  Fabric& fabric = world->fabric();
  Communicator group(fabric.endpoint(processes.rank()), "bench", fabric.take_group_ids(1), {0, 1},
                     nullptr);
  const Seconds trips = time_round_trips(group);
  if (is_first) print_exchange("round_trip", transport, 2, kPingBytes, trips);
  for (const ExchangeSize& size : kExchangeSizes) {
    ExchangeBuffer buffer(size.bytes);
    check_all_reduce(group, buffer, "before it was timed");
    const Seconds seconds = time_all_reduces(group, buffer, size.timed);
    check_all_reduce(group, buffer, "after it was timed");
    if (is_first) print_exchange("all_reduce", transport, 2, size.bytes, seconds);
  }
  world->leave(5000);
}

int run(const std::string& way) {
  if (way == "threads") {
    for (const int64_t ranks : {2, 4}) measure_threads(ranks);
    return 0;
  }
  if (way != "shm" && way != "tcp") {
    std::fprintf(stderr, "usage: bench_collectives threads|shm|tcp\n");
    return 2;
  }
  TwoProcesses processes;
  measure_processes(processes, way);
  processes.wait();
  return 0;
}

}  // namespace
}  // namespace plait::bench

int main(int argc, char** argv) try {
  return plait::bench::run(argc == 2 ? argv[1] : "");
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_collectives: %s\n", error.what());
  return 1;
}
