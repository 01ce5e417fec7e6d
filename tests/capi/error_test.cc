#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/host.h"
#include "tests/support/sanitized.h"

using host::Err;

TEST_CASE("A null error reads as OK, empty and -1", "[capi]") {
  CHECK(plait_error_code(nullptr) == PLAIT_OK);
  CHECK(plait_error_rank(nullptr) == -1);
  CHECK(plait_error_disposition(nullptr) == -1);
  CHECK(plait_error_host_code(nullptr) == -1);
  CHECK(std::string(plait_error_message(nullptr)).empty());
  CHECK(std::string(plait_error_word(nullptr)).empty());
  CHECK(std::string(plait_error_subsystem(nullptr)).empty());
  CHECK(std::string(plait_error_details(nullptr)).empty());
  plait_error_free(nullptr);
}

TEST_CASE("An error carries code, word, one line, details, rank and disposition", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  Err err;
  REQUIRE(plait_config_set(config, "model.layer", "3", err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_error_code(err.get()) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.word() == "argument");
  CHECK(err.message().rfind("argument: ", 0) == 0);
  CHECK(err.message().find("model.layers") != std::string::npos);
  CHECK(err.message().find('\n') == std::string::npos);
  CHECK(err.details().find("\"model.layer\"") != std::string::npos);
  CHECK(plait_error_rank(err.get()) == -1);
  CHECK(plait_error_disposition(err.get()) == PLAIT_DISPOSITION_UNCHANGED);
  CHECK(plait_error_host_code(err.get()) == 0);
}

TEST_CASE("A call that succeeds leaves the place of the error alone", "[capi]") {
  const host::Context context = host::make_context();
  auto* const marker = reinterpret_cast<plait_error*>(0x10);
  plait_error* err = marker;
  CHECK(plait_context_set_log_level(context, PLAIT_LOG_DEBUG, &err) == PLAIT_OK);
  CHECK(err == marker);
}

TEST_CASE("The error argument may be null", "[capi]") {
  CHECK(plait_context_set_log_level(nullptr, 1, nullptr) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("What is no error object reads as bad_handle", "[capi]") {
  const host::Context context = host::make_context();
  auto* const wrong = reinterpret_cast<plait_error*>(static_cast<plait_context*>(context));
  CHECK(plait_error_code(wrong) == PLAIT_INVALID_ARGUMENT);
  CHECK(std::string(plait_error_word(wrong)) == "bad_handle");
  plait_error_free(wrong);
  CHECK(plait_context_set_log_level(context, PLAIT_LOG_INFO, nullptr) == PLAIT_OK);
}

TEST_CASE("Every code has a name", "[capi]") {
  CHECK(std::string(plait_code_name(PLAIT_OK)) == "OK");
  CHECK(std::string(plait_code_name(PLAIT_UNAUTHENTICATED)) == "UNAUTHENTICATED");
  CHECK(std::string(plait_code_name(PLAIT_HOST_ERROR)) == "HOST_ERROR");
  CHECK(std::string(plait_code_name(PLAIT_PEER_LOST)) == "PEER_LOST");
  CHECK(std::string(plait_code_name(PLAIT_STOPPED)) == "STOPPED");
  CHECK(std::string(plait_code_name(17)) == "UNKNOWN");
  CHECK(std::string(plait_code_name(-1)) == "UNKNOWN");
}

TEST_CASE("Eight threads with ten thousand different failures each read their own", "[capi]") {
  constexpr int kFailures = plait::test::kIsSanitized ? 500 : 10000;
  const host::Context context = host::make_context();
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const host::Config config = host::make_config(context);
      for (int i = 0; i < kFailures; ++i) {
        const std::string key = "nothing.t" + std::to_string(t) + "_" + std::to_string(i);
        Err err;
        const int32_t code = plait_config_set(config, key.c_str(), "1", err);
        if (code != PLAIT_INVALID_ARGUMENT || err.word() != "argument" ||
            err.message().find(key) == std::string::npos) {
          ++wrong[static_cast<size_t>(t)];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(8, 0));
}
