#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/host.h"

using host::Err;

TEST_CASE("Freeing null, a wrong kind or twice does nothing", "[capi]") {
  plait_error_free(nullptr);
  plait_bytes_free(nullptr);
  plait_context_free(nullptr);
  plait_config_free(nullptr);
  plait_plan_free(nullptr);
  plait_group_free(nullptr);
  plait_engine_free(nullptr);
  plait_batch_free(nullptr);
  plait_dataset_free(nullptr);
  plait_tokenizer_free(nullptr);
  plait_checkpoint_free(nullptr);
  plait_op_free(nullptr);
  host::Context context = host::make_context();
  plait_config_free(reinterpret_cast<plait_config*>(static_cast<plait_context*>(context)));
  Err err;
  CHECK(plait_context_set_log_level(context, PLAIT_LOG_INFO, err) == PLAIT_OK);
  if (std::string(plait_build_info("feature.quarantine")) == "yes") {
    plait_context* raw = context.release();
    plait_context_free(raw);
    plait_context_free(raw);
    CHECK(plait_context_set_log_level(raw, PLAIT_LOG_INFO, err) == PLAIT_INVALID_ARGUMENT);
    CHECK(err.word() == "bad_handle");
  }
}

TEST_CASE("A misaligned handle is a bad handle", "[capi]") {
  const host::Context context = host::make_context();
  auto* const odd = reinterpret_cast<plait_context*>(
      reinterpret_cast<char*>(static_cast<plait_context*>(context)) + 1);
  Err err;
  CHECK(plait_context_set_log_level(odd, 1, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.word() == "bad_handle");
}

TEST_CASE("Handles may be freed in every order", "[capi]") {
  const host::Folder folder;
  host::write_tiny_gpt2(folder.path("m"));
  folder.write("d.bin", std::string(4000, '\1'));
  std::vector<int> order = {0, 1, 2, 3, 4, 5};
  do {
    Err err;
    plait_context* context = host::make_context().release();
    plait_config* config =
        host::make_config(context, "{\"data.train\":\"" + folder.path("d.bin") +
                                       "\",\"train.sequence_length\":8,\"model.vocab_size\":300}")
            .release();
    plait_group* group = host::make_group(context, config).release();
    plait_dataset* dataset = nullptr;
    plait_tokenizer* tokenizer = nullptr;
    plait_checkpoint* checkpoint = nullptr;
    REQUIRE(plait_dataset_open(context, config, "train", &dataset, err) == PLAIT_OK);
    REQUIRE(plait_tokenizer_open(context, "byte", nullptr, &tokenizer, err) == PLAIT_OK);
    REQUIRE(plait_checkpoint_open(context, folder.path("m").c_str(), &checkpoint, err) == PLAIT_OK);
    for (const int which : order) {
      if (which == 0) plait_context_free(context);
      if (which == 1) plait_config_free(config);
      if (which == 2) plait_group_free(group);
      if (which == 3) plait_dataset_free(dataset);
      if (which == 4) plait_tokenizer_free(tokenizer);
      if (which == 5) plait_checkpoint_free(checkpoint);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("A child works after its parents were freed", "[capi]") {
  host::Context context = host::make_context();
  host::Tokenizer tokenizer;
  Err err;
  REQUIRE(plait_tokenizer_open(context, "byte", nullptr, tokenizer.out(), err) == PLAIT_OK);
  host::Config config = host::make_config(context);
  plait_context_free(context.release());
  host::Bytes tokens;
  REQUIRE(plait_tokenizer_encode(tokenizer, "ab", 2, tokens.out(), err) == PLAIT_OK);
  CHECK(tokens.integers() == std::vector<int32_t>{'a', 'b'});
  CHECK(plait_config_set(config, "seed", "3", err) == PLAIT_OK);
}

TEST_CASE("Bytes outlive what they came from", "[capi]") {
  host::Bytes dump;
  Err err;
  {
    const host::Context context = host::make_context();
    const host::Config config = host::make_config(context, host::tiny_model());
    REQUIRE(plait_config_dump(config, 0, dump.out(), err) == PLAIT_OK);
  }
  CHECK(dump.text().find("gpt2") != std::string::npos);
  CHECK(plait_bytes_data(nullptr) == nullptr);
  CHECK(plait_bytes_size(nullptr) == 0);
}

TEST_CASE("Calls that overlap on one handle are busy and nothing worse", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  std::atomic<int> done{0}, busy{0}, other{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        Err err;
        host::Bytes bytes;
        const int32_t code = t % 2 == 0 ? plait_config_set(config, "seed", "5", err)
                                        : plait_config_dump(config, 1, bytes.out(), err);
        if (code == PLAIT_OK) {
          ++done;
        } else if (code == PLAIT_FAILED_PRECONDITION && err.word() == "busy" &&
                   plait_error_disposition(err.get()) == PLAIT_DISPOSITION_UNCHANGED) {
          ++busy;
        } else {
          ++other;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(other == 0);
  CHECK(done > 0);
  CHECK(done + busy == 8000);
  CHECK(plait_config_set(config, "seed", "6", nullptr) == PLAIT_OK);
}

TEST_CASE("A forked child may free, and is refused everything else", "[capi]") {
  host::Context context = host::make_context();
  host::Config config = host::make_config(context);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int wrong = 0;
    Err err;
    if (plait_config_set(config, "seed", "1", err) != PLAIT_FAILED_PRECONDITION) wrong |= 1;
    if (err.word() != "forked") wrong |= 2;
    if (plait_error_disposition(err.get()) != PLAIT_DISPOSITION_PROCESS_LOST) wrong |= 4;
    plait_context* fresh = nullptr;
    if (plait_context_create(PLAIT_API_VERSION, nullptr, &fresh, nullptr) !=
        PLAIT_FAILED_PRECONDITION) {
      wrong |= 8;
    }
    if (plait_config_key_count(config) != 0) wrong |= 16;
    plait_config_free(config.release());
    plait_context_free(context.release());
    _exit(wrong);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(plait_config_set(config, "seed", "1", nullptr) == PLAIT_OK);
}

TEST_CASE("Signal dispositions of the host stay as they are", "[capi]") {
  std::vector<struct sigaction> before(65), after(65);
  for (int i = 1; i < 65; ++i) sigaction(i, nullptr, &before[static_cast<size_t>(i)]);
  {
    const host::Context context = host::make_context();
    const host::Config config = host::make_config(context);
    const host::Group group = host::make_group(context, config);
  }
  for (int i = 1; i < 65; ++i) {
    const auto n = static_cast<size_t>(i);
    sigaction(i, nullptr, &after[n]);
    CHECK(before[n].sa_handler == after[n].sa_handler);
    CHECK(before[n].sa_flags == after[n].sa_flags);
  }
}

TEST_CASE("Cancellation waits until the call has ended", "[capi]") {
  const host::Context context = host::make_context();
  struct Shared {
    plait_context* context;
    std::atomic<int> calls{0};
    std::atomic<bool> was_reached{false};
  } shared{context};
  pthread_t thread;
  REQUIRE(pthread_create(
              &thread, nullptr,
              [](void* user) -> void* {
                auto* seen = static_cast<Shared*>(user);
                pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
                pthread_cancel(pthread_self());
                seen->calls += plait_context_set_log_level(seen->context, 3, nullptr) == PLAIT_OK;
                int state = -1;
                pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
                seen->was_reached = state == PTHREAD_CANCEL_DISABLE;
                pthread_testcancel();
                seen->calls += 100;
                return nullptr;
              },
              &shared) == 0);
  void* result = nullptr;
  REQUIRE(pthread_join(thread, &result) == 0);
  CHECK(result == PTHREAD_CANCELED);
  CHECK(shared.calls == 1);
  CHECK(shared.was_reached);
}

TEST_CASE("A thousand handles come and go", "[capi]") {
  for (int i = 0; i < 1000; ++i) {
    const host::Context context = host::make_context();
    const host::Config config = host::make_config(context);
    const host::Group group = host::make_group(context, config);
  }
}
