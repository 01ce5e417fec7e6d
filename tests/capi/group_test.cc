// How processes meet, through the public header: each group here stands for a process.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/host.h"

using host::Err;

namespace {

/// Groups of one rank each, of a context of their own.
struct Process {
  host::Context context = host::make_context();
  host::Config config = host::make_config(context);
  host::Group group;
  Err err;

  Process(int32_t rank, int32_t world) {
    REQUIRE(plait_config_set(config, "network.token", "secret", err) == PLAIT_OK);
    REQUIRE(plait_group_create(context, config, rank, 1, world, group.out(), err) == PLAIT_OK);
  }
};

template <class Body>
void in_threads(std::deque<Process>& processes, Body body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < processes.size(); ++i) threads.emplace_back([&, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

int64_t elapsed_ms(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               since)
      .count();
}

/// A host's store. `fault`: 1 put fails, 2 get fails, 3 get throws, 4 get calls the library.
struct Store {
  std::mutex mutex;
  std::map<std::string, std::string> values;
  int fault = 0;
  plait_context* context = nullptr;
  std::atomic<int> reentrant{0};

  static int64_t PLAIT_CALL put(void* user, const char* key, const void* value, int64_t bytes) {
    auto* self = static_cast<Store*>(user);
    if (self->fault == 1) return -41;
    const std::lock_guard<std::mutex> lock(self->mutex);
    self->values[key] = std::string(static_cast<const char*>(value), static_cast<size_t>(bytes));
    return 0;
  }
  static int64_t PLAIT_CALL get(void* user, const char* key, int64_t timeout_ms,
                                plait_reply* reply) {
    auto* self = static_cast<Store*>(user);
    if (self->fault == 2) return 42;
    if (self->fault == 3) throw 43;
    if (self->fault == 4) {
      Err err;
      self->reentrant = plait_context_set_log_level(self->context, 3, err);
      return 44;
    }
    for (int64_t waited = 0; waited <= timeout_ms; ++waited) {
      {
        const std::lock_guard<std::mutex> lock(self->mutex);
        const auto found = self->values.find(key);
        if (found != self->values.end()) {
          return plait_reply_set(reply, found->second.data(),
                                 static_cast<int64_t>(found->second.size()), nullptr);
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return 0;
  }
  plait_kv kv() {
    plait_kv made = host::sized<plait_kv>();
    made.user = this;
    made.put = put;
    made.get = get;
    return made;
  }
};

}  // namespace

TEST_CASE("Groups of several processes meet by cards", "[capi][group]") {
  std::deque<Process> processes;
  for (int32_t rank = 0; rank < 3; ++rank) processes.emplace_back(rank, 3);
  std::vector<host::Bytes> cards(3);
  for (size_t i = 0; i < 3; ++i) {
    REQUIRE(plait_group_card(processes[i].group, cards[i].out(), processes[i].err) == PLAIT_OK);
    CHECK(plait_bytes_size(cards[i]) <= 4096);
  }
  CHECK(plait_group_commit(processes[0].group, 1000, processes[0].err) == PLAIT_DEADLINE_EXCEEDED);
  CHECK(processes[0].err.word() == "missing_ranks");
  CHECK(processes[0].err.message().find("missing=[1,2]") != std::string::npos);
  CHECK(plait_error_disposition(processes[0].err.get()) == PLAIT_DISPOSITION_RETRY);
  for (Process& process : processes) {
    for (const host::Bytes& card : cards) {
      REQUIRE(plait_group_add_card(process.group, plait_bytes_data(card), plait_bytes_size(card),
                                   process.err) == PLAIT_OK);
    }
  }
  Process double_rank(1, 3);
  host::Bytes card;
  REQUIRE(plait_group_card(double_rank.group, card.out(), double_rank.err) == PLAIT_OK);
  CHECK(plait_group_add_card(processes[0].group, plait_bytes_data(card), plait_bytes_size(card),
                             processes[0].err) == PLAIT_INVALID_ARGUMENT);
  CHECK(processes[0].err.word() == "topology");
  int32_t codes[3] = {-1, -1, -1};
  in_threads(processes, [&](size_t i) {
    codes[i] = plait_group_commit(processes[i].group, 20000, processes[i].err);
  });
  for (const int32_t code : codes) CHECK(code == PLAIT_OK);
}

TEST_CASE("Groups of several processes meet by TCP", "[capi][group]") {
  std::deque<Process> processes;
  for (int32_t rank = 0; rank < 2; ++rank) processes.emplace_back(rank, 2);
  int32_t codes[2] = {-1, -1};
  // The port is free: a first group finds one that is.
  for (int32_t port = 21000; port < 21100 && codes[0] != PLAIT_OK; ++port) {
    const std::string address = "127.0.0.1:" + std::to_string(port);
    in_threads(processes, [&](size_t i) {
      codes[i] = plait_group_join_tcp(processes[i].group, address.c_str(), i == 0 ? 5000 : 1000,
                                      processes[i].err);
    });
  }
  CHECK(codes[0] == PLAIT_OK);
  CHECK(codes[1] == PLAIT_OK);
  CHECK(plait_group_join_tcp(processes[0].group, "127.0.0.1:1", 100, processes[0].err) == PLAIT_OK);
}

TEST_CASE("Groups of several processes meet by a store of the host", "[capi][group]") {
  std::deque<Process> processes;
  for (int32_t rank = 0; rank < 3; ++rank) processes.emplace_back(rank, 3);
  Store store;
  const plait_kv kv = store.kv();
  int32_t codes[3] = {-1, -1, -1};
  in_threads(processes, [&](size_t i) {
    codes[i] = plait_group_join_kv(processes[i].group, &kv, 20000, processes[i].err);
  });
  for (size_t i = 0; i < 3; ++i) {
    INFO(processes[i].err.message());
    CHECK(codes[i] == PLAIT_OK);
  }
  CHECK(store.values.count("plait/3/card/2") == 1);
}

TEST_CASE("What a store of the host returns or throws comes back", "[capi][group]") {
  Process process(0, 2);
  Store store;
  store.context = process.context;
  const plait_kv kv = store.kv();
  const int64_t numbers[] = {0, -41, 42, 0, 44};
  for (int fault = 1; fault <= 4; ++fault) {
    store.fault = fault;
    CHECK(plait_group_join_kv(process.group, &kv, 5000, process.err) == PLAIT_HOST_ERROR);
    CHECK(process.err.word() == "callback");
    CHECK(plait_error_host_code(process.err.get()) == numbers[fault]);
    CHECK(plait_error_disposition(process.err.get()) == PLAIT_DISPOSITION_UNCHANGED);
    CHECK(process.err.message().find(fault == 1 ? "function=put" : "function=get") !=
          std::string::npos);
  }
  CHECK(store.reentrant == PLAIT_FAILED_PRECONDITION);
  store.fault = 0;
  CHECK(plait_group_join_kv(process.group, &kv, 300, process.err) == PLAIT_DEADLINE_EXCEEDED);
  CHECK(process.err.message().find("missing=[1]") != std::string::npos);
  CHECK(plait_reply_set(nullptr, "x", 1, process.err) == PLAIT_INVALID_ARGUMENT);
  store.values["plait/2/card/1"] = "no card";
  CHECK(plait_group_join_kv(process.group, &kv, 300, process.err) == PLAIT_INVALID_ARGUMENT);
  CHECK(process.err.word() == "argument");
}

TEST_CASE("An incomplete group makes no engine", "[capi][group]") {
  const Process process(0, 2);
  Err err;
  const host::Config config = host::make_config(process.context, host::tiny_model());
  REQUIRE(plait_config_set(config, "layout.data", "2", err) == PLAIT_OK);
  host::Engine engine;
  CHECK(plait_engine_create(process.group, config, 5000, engine.out(), err) ==
        PLAIT_DEADLINE_EXCEEDED);
  CHECK(err.word() == "missing_ranks");
}

TEST_CASE("Abort and free end a join that waits", "[capi][group]") {
  for (const bool is_free : {false, true}) {
    Process process(0, 2);
    plait_group* const group = process.group.release();
    std::atomic<int32_t> code{-1};
    const auto begin = std::chrono::steady_clock::now();
    std::thread joiner([&] {
      Err err;
      code = plait_group_join_tcp(group, "127.0.0.1:0", -1, err);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (is_free) {
      plait_group_free(group);
    } else {
      plait_group_abort(group);
    }
    joiner.join();
    CHECK(code == PLAIT_ABORTED);
    CHECK(elapsed_ms(begin) < 1200);
    if (!is_free) plait_group_free(group);
  }
}

TEST_CASE("The configuration sets a group's limits", "[capi][group]") {
  Process process(0, 2);
  REQUIRE(plait_config_set(process.config, "timeout.init_ms", "300", process.err) == PLAIT_OK);
  host::Group group;
  REQUIRE(plait_group_create(process.context, process.config, 0, 1, 2, group.out(), process.err) ==
          PLAIT_OK);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(plait_group_join_tcp(group, "127.0.0.1:0", -1, process.err) == PLAIT_DEADLINE_EXCEEDED);
  CHECK(elapsed_ms(begin) >= 250);
  CHECK(elapsed_ms(begin) < 2000);
  // The token is in no card and no message.
  host::Bytes card;
  REQUIRE(plait_group_card(process.group, card.out(), process.err) == PLAIT_OK);
  CHECK(card.text().find("secret") == std::string::npos);
}

TEST_CASE("A group is measured, and what comes back is a configuration", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  host::Group group;
  Err err;
  REQUIRE(plait_group_create(context, config, 0, 2, 2, group.out(), err) == PLAIT_OK);
  host::Bytes fragment;
  REQUIRE(plait_group_measure(group, "links", -1, fragment.out(), err) == PLAIT_OK);
  REQUIRE(plait_config_load(config, plait_bytes_data(fragment), plait_bytes_size(fragment), err) ==
          PLAIT_OK);
  host::Bytes lines;
  REQUIRE(plait_config_get(config, "hardware.collectives", lines.out(), err) == PLAIT_OK);
  CHECK(lines.text().find("\"members_per_node\"") != std::string::npos);
  CHECK(plait_group_measure(group, "nonsense", -1, fragment.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.word() == "argument");
  CHECK(plait_group_measure(group, "links", 0, fragment.out(), err) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("A measurement ends when its host says so, and the group stays good", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context, host::tiny_model());
  host::Group group;
  Err err;
  REQUIRE(plait_group_create(context, config, 0, 2, 2, group.out(), err) == PLAIT_OK);
  std::atomic<bool> is_over{false};
  std::thread aborting([&] {
    while (!is_over.load()) {
      plait_group_abort(group);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  host::Bytes fragment;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(plait_group_measure(group, "all", -1, fragment.out(), err) == PLAIT_ABORTED);
  is_over.store(true);
  aborting.join();
  CHECK(err.word() == "aborted");
  CHECK(plait_error_disposition(err.get()) == PLAIT_DISPOSITION_UNCHANGED);
  CHECK(elapsed_ms(begin) < 5000);
  CHECK(plait_group_measure(group, "links", -1, fragment.out(), err) == PLAIT_OK);
}

TEST_CASE("A group with an engine is not measured", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context, host::tiny_model());
  const host::Group group = host::make_group(context, config);
  host::Engine engine;
  Err err;
  REQUIRE(plait_engine_create(group, config, -1, engine.out(), err) == PLAIT_OK);
  host::Bytes fragment;
  CHECK(plait_group_measure(group, "links", -1, fragment.out(), err) == PLAIT_FAILED_PRECONDITION);
  CHECK(err.word() == "busy");
  Process alone(0, 2);
  CHECK(plait_group_measure(alone.group, "links", -1, fragment.out(), err) ==
        PLAIT_DEADLINE_EXCEEDED);
  CHECK(err.word() == "missing_ranks");
}
