// Threads of one task: what is begun, what is thrown, and where.
#include "engine/trainer/io_threads.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/error.h"

using namespace plait;

namespace {

void wait_until(const std::atomic<bool>& flag) {
  while (!flag.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("every piece of work is done once, on as many threads as there may be", "[io]") {
  for (const int64_t most : {0, 1, 3, 50}) {
    std::atomic<int> started{0}, stopped{0};
    ThreadHooks hooks;
    hooks.start = [&](const char* name) { started += std::string(name) == "plait-io" ? 1 : 0; };
    hooks.stop = [&] { ++stopped; };
    std::vector<std::atomic<int>> done(20);
    IoThreads(most, hooks).run(done.size(), [&](size_t i) { ++done[i]; });
    for (const std::atomic<int>& one : done) CHECK(one == 1);
    CHECK(started == (most <= 1 ? 0 : std::min<int64_t>(most, 20)));
    CHECK(stopped == started);
  }
  IoThreads(4, {}).run(0, [](size_t) { throw Error("invariant", "there is no work"); });
}

TEST_CASE("of several failures the first in order is thrown, and nothing more is begun", "[io]") {
  std::atomic<bool> has_failed{false};
  std::atomic<int> begun{0};
  std::string word;
  try {
    IoThreads(3, {}).run(100, [&](size_t i) {
      ++begun;
      if (i == 2) {
        has_failed = true;
        throw Error("io_error", "the third");
      }
      wait_until(has_failed);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that it has been noted
      if (i == 1) throw Error("corrupt", "the second");
    });
  } catch (const Error& error) {
    word = error.word();
  }
  CHECK(word == "corrupt");
  CHECK(begun == 3);
}

TEST_CASE("whoever waits looks meanwhile, on its own thread", "[io]") {
  std::atomic<bool> has_looked{false};
  const std::thread::id own = std::this_thread::get_id();
  std::thread::id worker, looker;
  const auto work = [&](size_t) {
    worker = std::this_thread::get_id();
    wait_until(has_looked);
  };
  const auto look = [&] {
    looker = std::this_thread::get_id();
    has_looked = true;
  };
  IoThreads(1, {}).run(1, work, look);
  CHECK(looker == own);
  CHECK(worker != own);
}
