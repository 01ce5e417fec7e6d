#include "kernels/device/thread_pool.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <xmmintrin.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <mutex>
#include <set>
#include <string>

using namespace plait;

TEST_CASE("each chunk runs once, by a worker of the pool", "[thread_pool]") {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads, {}, false);
    CHECK(pool.threads() == threads);
    for (const int64_t chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(chunks));
      std::atomic<bool> is_good{true};
      pool.run(chunks, [&](int64_t chunk, int worker) {
        runs[static_cast<size_t>(chunk)].fetch_add(1);
        if (worker < 0 || worker >= threads) is_good = false;
      });
      CHECK(is_good);
      CHECK(std::all_of(runs.begin(), runs.end(), [](const auto& n) { return n.load() == 1; }));
    }
  }
}

TEST_CASE("a worker's number is its own while a job runs", "[thread_pool]") {
  ThreadPool pool(4, {}, false);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> clashes{0};
  for (int round = 0; round < 50; ++round) {
    pool.run(64, [&](int64_t, int worker) {
      if (inside[static_cast<size_t>(worker)].fetch_add(1) != 0) clashes.fetch_add(1);
      inside[static_cast<size_t>(worker)].fetch_sub(1);
    });
  }
  CHECK(clashes == 0);
}

TEST_CASE("ranges cover all items in pieces of at most the grain", "[thread_pool]") {
  ThreadPool pool(3, {}, false);
  for (const int64_t items : {0, 1, 9, 10, 11, 1001}) {
    for (const int64_t grain : {0, 1, 10, 5000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(items));
      std::atomic<bool> is_good{true};
      pool.run_range(items, grain, [&](int64_t first, int64_t last, int) {
        if (last <= first || last - first > std::max<int64_t>(grain, 1)) is_good = false;
        for (int64_t i = first; i < last; ++i) seen[static_cast<size_t>(i)].fetch_add(1);
      });
      CHECK(is_good);
      CHECK(std::all_of(seen.begin(), seen.end(), [](const auto& n) { return n.load() == 1; }));
    }
  }
}

TEST_CASE("what a job wrote is there when run returns", "[thread_pool]") {
  ThreadPool pool(3, {}, false);
  std::vector<int64_t> values(257, 0);
  for (int64_t round = 1; round <= 2000; ++round) {
    pool.run(257, [&](int64_t chunk, int) { ++values[static_cast<size_t>(chunk)]; });
    if (!std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == round; })) {
      FAIL("round " << round);
    }
  }
}

TEST_CASE("pools come and go", "[thread_pool]") {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(1 + i % 4, {}, false);
    std::atomic<int64_t> sum{0};
    if (i % 3 != 0) pool.run(5, [&](int64_t chunk, int) { sum += chunk; });
    CHECK(sum == (i % 3 != 0 ? 10 : 0));
  }
}

TEST_CASE("workers have the fixed state and call the host's hooks", "[thread_pool]") {
  std::mutex mutex;
  std::multiset<std::string> started;
  std::atomic<int> stopped{0}, open_signals{0}, flushing{0};
  ThreadHooks hooks;
  hooks.start = [&](const char* name) {
    char own[16] = {};
    pthread_getname_np(pthread_self(), own, sizeof own);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (const int number : {SIGINT, SIGTERM, SIGCHLD, SIGPROF, SIGUSR1}) {
      if (sigismember(&blocked, number) == 0) open_signals.fetch_add(1);
    }
    if ((_mm_getcsr() & 0x8040u) != 0) flushing.fetch_add(1);
    const std::lock_guard<std::mutex> lock(mutex);
    started.insert(name);
    CHECK(std::string(name).substr(0, 15) == own);
  };
  hooks.stop = [&] { stopped.fetch_add(1); };
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  for (const bool is_flushing : {false, true}) {
    { ThreadPool pool(3, hooks, is_flushing); }
    CHECK(flushing == (is_flushing ? 2 : 0));
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int number = 1; number < 32; ++number) {
    CHECK(sigismember(&before, number) == sigismember(&after, number));
  }
  CHECK(started == std::multiset<std::string>{"plait-compute-1", "plait-compute-1",
                                              "plait-compute-2", "plait-compute-2"});
  CHECK(stopped == 4);
  CHECK(open_signals == 0);
}
