// Ends that no call announces: fork, exit with live handles, cancellation, storms of stop, abort
// and free from other threads.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/host/process_state.h"
#include "tests/host/rig.h"

using host::Err;
using host::Rig;

namespace {

using Clock = std::chrono::steady_clock;

/// Exit code of a child within 20 s; -1 when it was killed by a signal or had to be.
int exit_code(pid_t child) {
  for (int i = 0; i < 2000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

/// Runs one hidden test case of this program in a process of its own.
int run_alone(const char* tag) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "test_host", tag, nullptr);
    _exit(99);
  }
  return exit_code(child);
}

}  // namespace

TEST_CASE("A6: a forked child is refused by name and may free", "[lifecycle]") {
  Rig rig(R"({"threads":3})");
  rig.good_step();
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Err err;
    int wrong = 0;
    const auto expect = [&](int32_t code) {
      if (code != PLAIT_FAILED_PRECONDITION || err.word() != "forked" ||
          plait_error_disposition(err.get()) != PLAIT_DISPOSITION_PROCESS_LOST) {
        ++wrong;
      }
    };
    const int32_t prompt = 1;
    float losses[64];
    host::Bytes bytes;
    expect(rig.step(err));
    expect(plait_engine_evaluate(rig.engine, rig.batch, 60000, nullptr, err));
    expect(plait_engine_score(rig.engine, rig.batch, 60000, losses, sizeof losses, err));
    expect(plait_engine_generate(rig.engine, &prompt, 1, 4, 60000, bytes.out(), err));
    expect(plait_engine_set(rig.engine, "generate.seed", "1", err));
    expect(plait_engine_report(rig.engine, "config", bytes.out(), err));
    expect(plait_engine_close(rig.engine, 5000, err));
    expect(plait_batch_set(rig.batch, "tokens", nullptr, 0, 0, err));
    plait_engine_request_stop(rig.engine);
    plait_engine_abort(rig.engine);
    if (plait_engine_state(rig.engine) != 0) ++wrong;
    plait_engine_free(rig.engine.release());
    plait_batch_free(rig.batch.release());
    plait_group_free(rig.group.release());
    plait_config_free(rig.config.release());
    plait_context_free(rig.context.release());
    _exit(wrong);
  }
  CHECK(exit_code(child) == 0);
  CHECK(plait_engine_state(rig.engine) == PLAIT_ENGINE_READY);
  rig.good_step();
  CHECK(rig.metrics.step == 2);
}

TEST_CASE("exits with everything alive", "[.exit]") {
  static Rig first(R"({"threads":3})");
  static auto* second = new Rig;
  first.good_step();
  second->good_step();
  std::exit(37);
}

TEST_CASE("exits while a step runs", "[.exit-in-step]") {
  static Rig rig(R"({"train.global_batch":4096,"threads":2})");
  rig.set_tokens(host::make_rows(4096, 17));
  std::atomic<bool> is_running{false};
  std::thread([&] {
    for (;;) {
      is_running = true;
      Err err;
      rig.step(err);
    }
  }).detach();
  while (!is_running) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::quick_exit(38);
}

TEST_CASE("A6: a process ends with live handles, in any state", "[lifecycle]") {
  CHECK(run_alone("[.exit]") == 37);
  CHECK(run_alone("[.exit-in-step]") == 38);
}

TEST_CASE("A6: a cancelled thread ends after its call, not in it", "[lifecycle]") {
  Rig rig(R"({"train.global_batch":256})");
  rig.set_tokens(host::make_rows(256, 17));
  struct Shared {
    Rig* rig;
    std::atomic<int64_t> begun{0}, done{0}, failed{0};
  } shared{&rig};
  for (int round = 1; round <= 5; ++round) {
    const int64_t before = shared.begun;
    pthread_t thread;
    REQUIRE(pthread_create(
                &thread, nullptr,
                [](void* user) -> void* {
                  auto* seen = static_cast<Shared*>(user);
                  for (;;) {
                    ++seen->begun;
                    Err err;
                    if (seen->rig->step(err) == PLAIT_OK) {
                      ++seen->done;
                    } else {
                      ++seen->failed;
                    }
                    pthread_testcancel();
                  }
                },
                &shared) == 0);
    while (shared.begun == before) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    REQUIRE(pthread_cancel(thread) == 0);
    void* result = nullptr;
    REQUIRE(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    CHECK(shared.failed == 0);
    CHECK(shared.begun == shared.done);
    CHECK(plait_engine_state(rig.engine) == PLAIT_ENGINE_READY);
  }
  Err err;
  REQUIRE(rig.step(err) == PLAIT_OK);
  CHECK(rig.metrics.step == shared.done + 1);
}

TEST_CASE("A9: a storm of stops costs no step", "[lifecycle]") {
  Rig rig;
  rig.set_tokens(host::make_rows(4, 17));
  std::atomic<bool> is_over{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      while (!is_over) {
        plait_engine_request_stop(rig.engine);
        std::this_thread::yield();
      }
    });
  }
  int64_t stopped = 0, other = 0;
  for (int64_t i = 1; i <= 200; ++i) {
    Err err;
    const int32_t code = rig.step(err);
    if (code == PLAIT_STOPPED) ++stopped;
    if (code != PLAIT_STOPPED && code != PLAIT_OK) ++other;
    if (rig.metrics.step != i || err.get() != nullptr) ++other;
    const int32_t read = plait_engine_evaluate(rig.engine, rig.batch, 60000, nullptr, err);
    if (read != PLAIT_STOPPED && read != PLAIT_OK) ++other;
  }
  is_over = true;
  for (std::thread& thread : others) thread.join();
  CHECK(other == 0);
  CHECK(stopped > 0);
  plait_engine_request_stop(rig.engine);
  Err err;
  CHECK(rig.step(err) == PLAIT_STOPPED);
  CHECK(rig.step(err) == PLAIT_OK);
  CHECK(rig.metrics.step == 202);
}

TEST_CASE("A9: storms of stop, abort and free end every call within a second", "[lifecycle]") {
  Rig warm_up;
  warm_up.good_step();
  const int64_t descriptors = host::descriptor_count(), threads = host::thread_count();
  for (int round = 0; round < 24; ++round) {
    Rig rig(round % 2 == 0 ? "{}" : R"({"threads":3})");
    rig.set_tokens(host::make_rows(4, 17));
    plait_engine* raw = rig.engine.release();
    std::atomic<int64_t> calls{0}, unexpected{0};
    const auto loop = [&](auto call) {
      return std::thread([&, call] {
        for (;;) {
          Err err;
          const int32_t code = call(err);
          ++calls;
          if (code == PLAIT_ABORTED ||
              (code == PLAIT_INVALID_ARGUMENT && err.word() == "bad_handle"))
            return;
          const bool is_busy = code == PLAIT_FAILED_PRECONDITION && err.word() == "busy";
          if (code != PLAIT_OK && code != PLAIT_STOPPED && !is_busy) ++unexpected;
        }
      });
    };
    std::thread trainer =
        loop([&](Err& err) { return plait_engine_step(raw, rig.batch, 60000, nullptr, err); });
    std::thread evaluator =
        loop([&](Err& err) { return plait_engine_evaluate(raw, rig.batch, 60000, nullptr, err); });
    while (calls < 20) std::this_thread::yield();
    const auto begin = Clock::now();
    std::thread stopper([&] {
      for (int i = 0; i < 50; ++i) plait_engine_request_stop(raw);
    });
    std::thread aborter([&] {
      if (round % 3 != 0) plait_engine_abort(raw);
    });
    std::thread freer([&] {
      if (round % 3 == 0) plait_engine_free(raw);
    });
    trainer.join();
    evaluator.join();
    CHECK(Clock::now() - begin < std::chrono::seconds(1));
    stopper.join();
    aborter.join();
    freer.join();
    if (round % 3 != 0) {
      CHECK(plait_engine_state(raw) == PLAIT_ENGINE_LOST);
      plait_engine_free(raw);
    }
    CHECK(unexpected == 0);
  }
  CHECK(host::has_descriptors(descriptors));
  CHECK(host::has_threads(threads));
}
