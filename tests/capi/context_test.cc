#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/host.h"

using host::Err;

namespace {

// What the callbacks of a test saw.
struct Seen {
  std::mutex mutex;
  std::vector<std::string> messages;
  std::vector<std::string> started;
  std::atomic<int> stopped{0};
  std::atomic<int> concurrent{0}, most_concurrent{0};
  std::atomic<bool> is_signal_open{false};
  std::atomic<int32_t> reentrant_code{-1};
  plait_context* context = nullptr;
  bool throws = false;
};

void see_log(void* user, const plait_log_record* record) {
  auto* seen = static_cast<Seen*>(user);
  const int now = ++seen->concurrent;
  if (now > seen->most_concurrent) seen->most_concurrent = now;
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  if (sigismember(&mask, SIGINT) == 0) seen->is_signal_open = true;
  if (seen->context != nullptr) {
    seen->reentrant_code = plait_context_set_log_level(seen->context, PLAIT_LOG_INFO, nullptr);
  }
  {
    const std::lock_guard lock(seen->mutex);
    seen->messages.emplace_back(record->message, static_cast<size_t>(record->message_bytes));
  }
  --seen->concurrent;
  if (seen->throws) throw std::runtime_error("from the host");
}

void see_start(void* user, const char* name) {
  auto* seen = static_cast<Seen*>(user);
  const std::lock_guard lock(seen->mutex);
  seen->started.emplace_back(name);
}

void see_stop(void* user) { ++static_cast<Seen*>(user)->stopped; }

plait_host make_host(Seen* seen) {
  auto value = host::sized<plait_host>();
  value.user = seen;
  value.log = see_log;
  value.thread_start = see_start;
  value.thread_stop = see_stop;
  return value;
}

// Makes the library log: config.json with a key that it does not know.
void provoke_warnings(plait_context* context, const host::Folder& folder, int count) {
  host::write_tiny_gpt2(folder.path("m"));
  std::string text = host::read_file(folder.path("m/config.json"));
  text.insert(1, "\"no_such_key\":1,");
  folder.write("m/config.json", text);
  const host::Config config = host::make_config(context);
  for (int i = 0; i < count; ++i) {
    Err err;
    REQUIRE(plait_config_load_hf(config, folder.path("m").c_str(), err) == PLAIT_OK);
  }
}

bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("The version handshake names both versions before any handle exists", "[capi]") {
  for (const int32_t version : {2000, 0, 1000000, 1001000, -1, INT32_MAX, INT32_MIN}) {
    plait_context* context = reinterpret_cast<plait_context*>(0x10);
    Err err;
    CHECK(plait_context_create(version, nullptr, &context, err) == PLAIT_FAILED_PRECONDITION);
    CHECK(context == nullptr);
    CHECK(err.word() == "version_mismatch");
    CHECK(err.message().find("library=0.1") != std::string::npos);
  }
  Err err;
  plait_context* context = nullptr;
  plait_context_create(2000, nullptr, &context, err);
  CHECK(err.message().find("header=0.2") != std::string::npos);
  CHECK(plait_version() / 1000 * 1000 == PLAIT_API_VERSION);
}

TEST_CASE("The build says what it has", "[capi]") {
  REQUIRE(plait_build_info("commit") != nullptr);
  CHECK(std::string(plait_build_info("commit")).size() >= 7);
  CHECK(std::string(plait_build_info("compiler")).size() > 2);
  CHECK(std::string(plait_build_info("features")).find("cpu") != std::string::npos);
  CHECK(std::string(plait_build_info("feature.cpu")) == "yes");
  CHECK(std::string(plait_build_info("feature.world")) == "yes");
  CHECK(std::string(plait_build_info("feature.planner")) == "yes");
  CHECK(std::string(plait_build_info("feature.cuda")) == "not built");
  CHECK(plait_build_info("feature.nonsense") == nullptr);
  CHECK(plait_build_info("nonsense") == nullptr);
  CHECK(plait_build_info(nullptr) == nullptr);
}

TEST_CASE("A group of one process needs no meeting", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  const host::Group group = host::make_group(context, config);
  Err err;
  host::Bytes card;
  REQUIRE(plait_group_card(group, card.out(), err) == PLAIT_OK);
  CHECK(plait_bytes_size(card) > 0);
  CHECK(plait_bytes_size(card) <= 4096);
  CHECK(plait_group_add_card(group, plait_bytes_data(card), plait_bytes_size(card), err) ==
        PLAIT_OK);
  CHECK(plait_group_add_card(group, "{}", 2, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.word() == "argument");
  const host::Group other = host::make_group(context, config);
  REQUIRE(plait_group_card(other, card.out(), err) == PLAIT_OK);
  CHECK(plait_group_add_card(group, plait_bytes_data(card), plait_bytes_size(card), err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(err.word() == "topology");
  CHECK(plait_group_commit(group, -1, err) == PLAIT_OK);
  CHECK(plait_group_commit(group, 0, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_group_join_tcp(group, "127.0.0.1:4000", 1000, err) == PLAIT_OK);
  CHECK(plait_group_join_tcp(group, "nowhere", 1000, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_group_join_kv(group, nullptr, 1000, err) == PLAIT_INVALID_ARGUMENT);
  plait_group_abort(group);
  host::Group bad;
  const int32_t shapes[][3] = {{-1, 1, 1},       {0, 0, 1}, {0, 1, 0},
                               {1, 1, 1},        {0, 2, 1}, {INT32_MAX, 1, INT32_MAX},
                               {0, INT32_MAX, 1}};
  for (const auto& shape : shapes) {
    CHECK(plait_group_create(context, config, shape[0], shape[1], shape[2], bad.out(), err) ==
          PLAIT_INVALID_ARGUMENT);
    CHECK(err.word() == "topology");
  }
}

TEST_CASE("The log ring is drained as JSON lines and counts what it lost", "[capi]") {
  const host::Folder folder;
  const host::Context context = host::make_context();
  Err err;
  provoke_warnings(context, folder, 5000);
  host::Bytes lines;
  REQUIRE(plait_context_log_drain(context, 2, lines.out(), err) == PLAIT_OK);
  const std::string text = lines.text();
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  CHECK(text.rfind("{\"dropped\":904}\n", 0) == 0);
  CHECK(text.find("no_such_key") != std::string::npos);
  CHECK(text.find("\"level\":\"warning\"") != std::string::npos);
  REQUIRE(plait_context_log_drain(context, INT64_MAX, lines.out(), err) == PLAIT_OK);
  const std::string rest = lines.text();
  CHECK(std::count(rest.begin(), rest.end(), '\n') == 4094);
  CHECK(plait_context_log_drain(context, -1, lines.out(), err) == PLAIT_INVALID_ARGUMENT);
  REQUIRE(plait_context_set_log_level(context, PLAIT_LOG_ERROR, err) == PLAIT_OK);
  provoke_warnings(context, folder, 1);
  REQUIRE(plait_context_log_drain(context, 10, lines.out(), err) == PLAIT_OK);
  CHECK(lines.text().empty());
  CHECK(plait_context_set_log_level(context, 0, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_context_set_log_level(context, 6, err) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("A log callback gets each record on one library thread, and no other call", "[capi]") {
  const host::Folder folder;
  Seen seen;
  seen.throws = GENERATE(false, true);
  const plait_host callbacks = make_host(&seen);
  Err err;
  {
    host::Context context;
    REQUIRE(plait_context_create(PLAIT_API_VERSION, &callbacks, context.out(), err) == PLAIT_OK);
    seen.context = context;
    provoke_warnings(context, folder, 100);
    CHECK(wait_until([&] {
      const std::lock_guard lock(seen.mutex);
      return seen.messages.size() == 100;
    }));
    host::Bytes lines;
    CHECK(plait_context_log_drain(context, 10, lines.out(), err) == PLAIT_OK);
    CHECK(lines.text().empty());
    seen.context = nullptr;
  }
  CHECK(seen.stopped == 1);  // the thread has ended when the context is gone
  CHECK(seen.started == std::vector<std::string>{"plait-log"});
  CHECK(seen.most_concurrent == 1);
  CHECK(!seen.is_signal_open);
  CHECK(seen.reentrant_code == PLAIT_FAILED_PRECONDITION);
}

TEST_CASE("Records that are not delivered yet are delivered when the context goes", "[capi]") {
  const host::Folder folder;
  Seen seen;
  const plait_host callbacks = make_host(&seen);
  for (int round = 0; round < 20; ++round) {
    host::Context context;
    REQUIRE(plait_context_create(PLAIT_API_VERSION, &callbacks, context.out(), nullptr) ==
            PLAIT_OK);
    provoke_warnings(context, folder, 10);
  }
  CHECK(seen.messages.size() == 200);
  CHECK(seen.stopped == 20);
}

TEST_CASE("Echo gives back every number, text and byte", "[capi]") {
  const std::string data("\0\xff\x80z", 4);
  for (const int64_t integer : {int64_t{1} << 31, (int64_t{1} << 32) + 5, int64_t{1} << 40,
                                (int64_t{1} << 53) + 1, INT64_MAX, INT64_MIN}) {
    int64_t integer_back = 0;
    double real_back = 0;
    host::Bytes text, bytes;
    Err err;
    REQUIRE(plait_x_echo(integer, -0.1, "\xF0\x9F\x90\x8D", data.data(), 4, &integer_back,
                         &real_back, text.out(), bytes.out(), err) == PLAIT_OK);
    CHECK(integer_back == integer);
    CHECK(real_back == -0.1);
    CHECK(text.text() == "\xF0\x9F\x90\x8D");
    CHECK(bytes.text() == data);
    CHECK(static_cast<const char*>(plait_bytes_data(bytes))[4] == '\0');
  }
  Err err;
  CHECK(plait_x_echo(1, 1, "\xC0\x80", nullptr, 0, nullptr, nullptr, nullptr, nullptr, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_x_echo(1, 1, "a", nullptr, 1, nullptr, nullptr, nullptr, nullptr, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_x_echo(1, 1, "a", nullptr, 0, nullptr, nullptr, nullptr, nullptr, err) == PLAIT_OK);
}
