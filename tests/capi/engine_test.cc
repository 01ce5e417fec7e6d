#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/host.h"

using host::Err;

namespace {

// An engine of the tiny model (2 sequences of 8 tokens), with whatever it hangs on.
struct Rig {
  explicit Rig(const std::string& json = host::tiny_model())
      : context(host::make_context()),
        config(host::make_config(context, json)),
        group(host::make_group(context, config)) {
    Err err;
    const int32_t code = plait_engine_create(group, config, 60000, engine.out(), err);
    INFO(err.message());
    REQUIRE(code == PLAIT_OK);
    REQUIRE(plait_batch_create(engine, PLAIT_BATCH_GLOBAL, batch.out(), err) == PLAIT_OK);
  }
  void set_tokens(int rows = 2, int32_t first = 3) {
    std::vector<int32_t> tokens(static_cast<size_t>(rows) * 9);
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = (first + static_cast<int32_t>(i) * 5) % 256;
    }
    REQUIRE(plait_batch_set(batch, "tokens", tokens.data(), rows, 9, nullptr) == PLAIT_OK);
  }
  int32_t step(plait_metrics* metrics, Err& err) {
    return plait_engine_step(engine, batch, 60000, metrics, err);
  }

  host::Context context;
  host::Config config;
  host::Group group;
  host::Engine engine;
  host::Batch batch;
};

}  // namespace

TEST_CASE("An engine says what it wants and trains on a host batch", "[capi]") {
  Rig rig;
  Err err;
  CHECK(plait_engine_state(rig.engine) == PLAIT_ENGINE_READY);
  CHECK(plait_engine_state(nullptr) == 0);
  auto spec = host::sized<plait_batch_spec>();
  REQUIRE(plait_engine_batch_spec(rig.engine, &spec, err) == PLAIT_OK);
  CHECK(spec.global_rows == 2);
  CHECK(spec.local_rows == 2);
  CHECK(spec.span_count == 1);
  CHECK(spec.sequence_length == 8);
  CHECK(spec.vocab_size == 256);
  CHECK((spec.needs & PLAIT_NEEDS_TOKENS) != 0);
  int64_t first = -1, count = -1;
  REQUIRE(plait_engine_batch_span(rig.engine, 2, 0, &first, &count, err) == PLAIT_OK);
  CHECK(first == 0);
  CHECK(count == 2);
  rig.set_tokens();
  auto metrics = host::sized<plait_metrics>();
  double before = 0;
  for (int i = 1; i <= 30; ++i) {
    REQUIRE(rig.step(&metrics, err) == PLAIT_OK);
    CHECK((metrics.valid & PLAIT_METRICS_STEP) != 0);
    CHECK(metrics.step == i);
    CHECK(metrics.samples_total == 2 * i);
    CHECK(metrics.targets == 16);
    CHECK(metrics.skipped == 0);
    if (i == 1) before = metrics.loss;
  }
  CHECK(before > 4.5);
  CHECK(before < 6.5);
  CHECK(metrics.loss < before - 0.05);
  CHECK(metrics.grad_norm > 0);
}

TEST_CASE("Batches are refused with place and value, and the engine goes on", "[capi]") {
  Rig rig;
  Err err;
  CHECK(rig.step(nullptr, err) == PLAIT_INVALID_ARGUMENT);  // empty
  CHECK(plait_engine_step(rig.engine, nullptr, 60000, nullptr, err) == PLAIT_INVALID_ARGUMENT);
  rig.set_tokens(1);
  CHECK(rig.step(nullptr, err) == PLAIT_INVALID_ARGUMENT);
  rig.set_tokens(2);
  int32_t* tokens = nullptr;
  REQUIRE(plait_batch_map(rig.batch, "tokens", 2, 9, &tokens, err) == PLAIT_OK);
  CHECK(reinterpret_cast<uintptr_t>(tokens) % 64 == 0);
  CHECK(tokens[0] == 3);  // mapping keeps the content of the same shape
  tokens[10] = 256;
  CHECK(rig.step(nullptr, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.word() == "token_range");
  CHECK(err.message().find("256") != std::string::npos);
  tokens[10] = -1;
  CHECK(rig.step(nullptr, err) == PLAIT_INVALID_ARGUMENT);
  tokens[10] = 255;
  CHECK(rig.step(nullptr, err) == PLAIT_OK);
  CHECK(plait_engine_forward_backward(rig.engine, nullptr, 60000, nullptr, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_step(rig.engine, rig.batch, 0, nullptr, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_step(rig.engine, rig.batch, -2, nullptr, err) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("A batch belongs to one engine and checks names and shapes", "[capi]") {
  Rig one, two;
  Err err;
  two.set_tokens();
  CHECK(plait_engine_step(one.engine, two.batch, 60000, nullptr, err) == PLAIT_INVALID_ARGUMENT);
  const int32_t value = 1;
  CHECK(plait_batch_set(one.batch, "words", &value, 1, 1, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_batch_set(one.batch, "tokens", &value, 0, 1, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_batch_set(one.batch, "tokens", &value, 1, -1, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_batch_set(one.batch, "tokens", &value, INT64_MAX, 1, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_batch_set(one.batch, "tokens", &value, 1 << 30, 1 << 30, err) ==
        PLAIT_RESOURCE_EXHAUSTED);
  CHECK(plait_batch_set(one.batch, "tokens", nullptr, 0, 0, err) == PLAIT_OK);
  CHECK(plait_batch_map(one.batch, "tokens", 1, 1, nullptr, err) == PLAIT_INVALID_ARGUMENT);
  host::Batch none;
  CHECK(plait_batch_create(one.engine, 3, none.out(), err) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("Accumulated calls equal one step on the whole", "[capi]") {
  Rig whole, parts;
  Err err;
  whole.set_tokens(2, 3);
  auto metrics = host::sized<plait_metrics>();
  REQUIRE(whole.step(&metrics, err) == PLAIT_OK);
  const double loss = metrics.loss, norm = metrics.grad_norm;
  parts.set_tokens(1, 3);
  REQUIRE(plait_engine_forward_backward(parts.engine, parts.batch, 60000, nullptr, err) ==
          PLAIT_OK);
  parts.set_tokens(1, 3 + 45);
  REQUIRE(plait_engine_forward_backward(parts.engine, parts.batch, 60000, nullptr, err) ==
          PLAIT_OK);
  REQUIRE(plait_engine_optimizer_step(parts.engine, 60000, &metrics, err) == PLAIT_OK);
  CHECK(metrics.loss == Approx(loss).epsilon(1e-5));
  CHECK(metrics.grad_norm == Approx(norm).epsilon(1e-4));
}

TEST_CASE("Evaluate and score agree and leave the state alone", "[capi]") {
  Rig rig;
  Err err;
  rig.set_tokens();
  auto metrics = host::sized<plait_metrics>();
  REQUIRE(plait_engine_evaluate(rig.engine, rig.batch, 60000, &metrics, err) == PLAIT_OK);
  const double loss = metrics.loss;
  std::vector<float> losses(16);
  REQUIRE(plait_engine_score(rig.engine, rig.batch, 60000, losses.data(), 64, err) == PLAIT_OK);
  double sum = 0;
  for (const float value : losses) sum += value;
  CHECK(sum / 16 == Approx(loss).epsilon(1e-5));
  CHECK(plait_engine_score(rig.engine, rig.batch, 60000, losses.data(), 60, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_score(rig.engine, rig.batch, 60000, nullptr, 64, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_score(rig.engine, nullptr, 60000, losses.data(), 64, err) ==
        PLAIT_INVALID_ARGUMENT);
  REQUIRE(rig.step(&metrics, err) == PLAIT_OK);
  CHECK(metrics.step == 1);
  CHECK(metrics.loss == Approx(loss).epsilon(1e-5));
}

TEST_CASE("Generation gives ids and refuses an empty prompt", "[capi]") {
  Rig rig;
  Err err;
  REQUIRE(plait_engine_set(rig.engine, "generate.temperature", "0", err) == PLAIT_OK);
  const std::vector<int32_t> prompt(20, 7);  // longer than the model
  host::Bytes first, second;
  REQUIRE(plait_engine_generate(rig.engine, prompt.data(), 20, 12, 60000, first.out(), err) ==
          PLAIT_OK);
  REQUIRE(plait_engine_generate(rig.engine, prompt.data(), 20, 12, 60000, second.out(), err) ==
          PLAIT_OK);
  CHECK(first.integers().size() == 12);
  CHECK(first.integers() == second.integers());
  CHECK(plait_engine_generate(rig.engine, prompt.data(), 0, 4, 60000, first.out(), err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_generate(rig.engine, nullptr, 4, 4, 60000, first.out(), err) ==
        PLAIT_INVALID_ARGUMENT);
  const int32_t bad = 256;
  CHECK(plait_engine_generate(rig.engine, &bad, 1, 4, 60000, first.out(), err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(err.word() == "token_range");
}

TEST_CASE("Tensors are listed, read, changed and read again", "[capi]") {
  Rig rig;
  Err err;
  const int64_t count = plait_engine_tensor_count(rig.engine);
  REQUIRE(count > 10);
  std::string last;
  int64_t last_kind = 0;
  std::set<int64_t> kinds;
  for (int64_t i = 0; i < count; ++i) {
    auto info = host::sized<plait_entry_info>();
    REQUIRE(plait_engine_tensor_at(rig.engine, i, &info, err) == PLAIT_OK);
    const bool is_ordered = last < info.name || (last == info.name && last_kind < info.kind);
    CHECK(is_ordered);
    last = info.name;
    last_kind = info.kind;
    kinds.insert(info.kind);
    if (info.kind == PLAIT_KIND_GRADIENT) continue;
    std::vector<char> data(static_cast<size_t>(info.elements) * 4 + 1), back(data.size());
    const int64_t bytes = info.elements * 4;
    const auto kind = static_cast<int32_t>(info.kind);
    // Any alignment: one byte in.
    REQUIRE(plait_engine_tensor_read(rig.engine, info.name, kind, PLAIT_DTYPE_FLOAT32, 60000,
                                     data.data() + 1, bytes, err) == PLAIT_OK);
    for (int64_t e = 0; e < info.elements; ++e) {
      const float value = static_cast<float>(e % 7) / 8;
      std::memcpy(data.data() + 1 + e * 4, &value, 4);
    }
    REQUIRE(plait_engine_tensor_write(rig.engine, info.name, kind, PLAIT_DTYPE_FLOAT32,
                                      data.data() + 1, bytes, 60000, err) == PLAIT_OK);
    REQUIRE(plait_engine_tensor_read(rig.engine, info.name, kind, PLAIT_DTYPE_FLOAT32, 60000,
                                     back.data() + 1, bytes, err) == PLAIT_OK);
    CHECK(data == back);
    CHECK(plait_engine_tensor_read(rig.engine, info.name, kind, PLAIT_DTYPE_FLOAT32, 60000,
                                   back.data(), bytes - 1, err) == PLAIT_INVALID_ARGUMENT);
  }
  CHECK(kinds.count(PLAIT_KIND_PARAM) == 1);
  CHECK(plait_engine_tensor_read(rig.engine, "none", 1, 1, 60000, nullptr, 0, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_tensor_read(rig.engine, last.c_str(), 9, 1, 60000, nullptr, 0, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_tensor_read(rig.engine, last.c_str(), 1, 5, 60000, nullptr, 0, err) ==
        PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("Run-time keys, properties, counters and reports", "[capi]") {
  Rig rig;
  Err err;
  CHECK(plait_engine_set(rig.engine, "generate.top_k", "5", err) == PLAIT_OK);
  CHECK(plait_engine_set(rig.engine, "model.hidden", "32", err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_set(rig.engine, "generate.top_q", "5", err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_set_property(rig.engine, "epoch", PLAIT_PROPERTY_INTEGER, 3, 0, nullptr,
                                  err) == PLAIT_OK);
  CHECK(plait_engine_set_property(rig.engine, "Bad Name", 1, 3, 0, nullptr, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_set_property(rig.engine, "hf.config", 1, 3, 0, nullptr, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_set_property(rig.engine, "text", PLAIT_PROPERTY_TEXT, 0, 0, nullptr, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_engine_set_property(rig.engine, "text", 4, 0, 0, "a", err) == PLAIT_INVALID_ARGUMENT);
  host::Bytes report;
  for (const char* kind : {"config", "ranks", "kernels", "memory", "schedule", "counters",
                           "properties", "operations"}) {
    INFO(kind);
    REQUIRE(plait_engine_report(rig.engine, kind, report.out(), err) == PLAIT_OK);
    CHECK(plait_bytes_size(report) > 1);
  }
  REQUIRE(plait_engine_report(rig.engine, "properties", report.out(), err) == PLAIT_OK);
  CHECK(report.text().find("\"epoch\"") != std::string::npos);
  CHECK(plait_engine_report(rig.engine, "weather", report.out(), err) == PLAIT_INVALID_ARGUMENT);
  double value = 0;
  CHECK(plait_engine_counter(rig.engine, "no such counter", &value, err) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("A request to stop ends the step with STOPPED and no error object", "[capi]") {
  Rig rig;
  Err err;
  rig.set_tokens();
  plait_engine_request_stop(rig.engine);
  auto metrics = host::sized<plait_metrics>();
  CHECK(rig.step(&metrics, err) == PLAIT_STOPPED);
  CHECK(err.get() == nullptr);
  CHECK(metrics.step == 1);
  CHECK((metrics.valid & PLAIT_METRICS_STEP) != 0);
  CHECK(rig.step(&metrics, err) == PLAIT_OK);
  CHECK(metrics.step == 2);
}

TEST_CASE("Abort ends a running call within a second and loses the engine", "[capi]") {
  Rig rig;
  rig.set_tokens();
  std::atomic<bool> has_started{false};
  int32_t code = PLAIT_OK;
  std::string word;
  std::thread trainer([&] {
    Err err;
    while (code == PLAIT_OK) {
      code = rig.step(nullptr, err);
      has_started = true;
    }
    word = err.word();
  });
  while (!has_started) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  plait_engine_abort(rig.engine);
  trainer.join();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
  CHECK(code == PLAIT_ABORTED);
  CHECK(word == "aborted");
  CHECK(plait_engine_state(rig.engine) == PLAIT_ENGINE_LOST);
  Err err;
  CHECK(rig.step(nullptr, err) == PLAIT_ABORTED);
  CHECK(plait_error_disposition(err.get()) == PLAIT_DISPOSITION_ENGINE_LOST);
  host::Bytes report;
  CHECK(plait_engine_report(rig.engine, "config", report.out(), err) == PLAIT_OK);
  CHECK(plait_engine_close(rig.engine, 5000, err) == PLAIT_OK);
  // The process lives on: a new engine, once the old one is gone.
  plait_batch_free(rig.batch.release());
  plait_engine_free(rig.engine.release());
  host::Engine next;
  CHECK(plait_engine_create(rig.group, rig.config, 60000, next.out(), err) == PLAIT_OK);
}

TEST_CASE("A free during a call ends the call", "[capi]") {
  Rig rig;
  rig.set_tokens();
  std::atomic<int> steps{0};
  int32_t code = PLAIT_OK;
  plait_engine* raw = rig.engine.release();
  std::thread trainer([&] {
    Err err;
    // One long call after another; the free comes within one of them or between two.
    while (code == PLAIT_OK) {
      code = plait_engine_step(raw, rig.batch, 60000, nullptr, err);
      ++steps;
    }
  });
  while (steps < 3) std::this_thread::yield();
  plait_engine_free(raw);
  trainer.join();
  const bool is_expected = code == PLAIT_ABORTED || code == PLAIT_INVALID_ARGUMENT;
  CHECK(is_expected);
}

TEST_CASE("A closed engine answers reports alone", "[capi]") {
  Rig rig;
  Err err;
  rig.set_tokens();
  REQUIRE(rig.step(nullptr, err) == PLAIT_OK);
  REQUIRE(plait_engine_close(rig.engine, 5000, err) == PLAIT_OK);
  CHECK(plait_engine_state(rig.engine) == PLAIT_ENGINE_CLOSED);
  CHECK(rig.step(nullptr, err) != PLAIT_OK);
  host::Bytes report;
  CHECK(plait_engine_report(rig.engine, "counters", report.out(), err) == PLAIT_OK);
}

TEST_CASE("A group has one engine at a time; two groups do not see each other", "[capi]") {
  Rig one, two;
  Err err;
  host::Engine second;
  CHECK(plait_engine_create(one.group, one.config, 60000, second.out(), err) ==
        PLAIT_FAILED_PRECONDITION);
  CHECK(err.word() == "busy");
  one.set_tokens();
  two.set_tokens();
  auto first = host::sized<plait_metrics>(), other = host::sized<plait_metrics>();
  for (int i = 0; i < 5; ++i) {
    REQUIRE(one.step(&first, err) == PLAIT_OK);
    REQUIRE(two.step(&other, err) == PLAIT_OK);
    CHECK(first.loss == other.loss);
  }
  plait_engine_abort(one.engine);
  CHECK(two.step(&other, err) == PLAIT_OK);
}

TEST_CASE("A data set feeds training and evaluation", "[capi]") {
  const host::Folder folder;
  folder.write("d.bin", std::string(4000, '\1'));
  Rig rig;
  const std::string data = "{\"data.train\":\"" + folder.path("d.bin") +
                           "\",\"data.split\":[0.9,0.1],\"model.vocab_size\":300,"
                           "\"train.sequence_length\":8,\"evaluate.batches\":2}";
  const host::Config config = host::make_config(rig.context, host::tiny_model());
  Err err;
  REQUIRE(plait_config_load(config, data.data(), static_cast<int64_t>(data.size()), err) ==
          PLAIT_OK);
  Rig fed([&] {
    host::Bytes json;
    REQUIRE(plait_config_dump(config, 0, json.out(), err) == PLAIT_OK);
    return json.text();
  }());
  host::Dataset train, evaluate;
  REQUIRE(plait_dataset_open(fed.context, config, "train", train.out(), err) == PLAIT_OK);
  REQUIRE(plait_dataset_open(fed.context, config, "evaluate", evaluate.out(), err) == PLAIT_OK);
  CHECK(plait_engine_attach_dataset(fed.engine, "test", train, 60000, err) ==
        PLAIT_INVALID_ARGUMENT);
  REQUIRE(plait_engine_attach_dataset(fed.engine, "train", train, 60000, err) == PLAIT_OK);
  REQUIRE(plait_engine_attach_dataset(fed.engine, "evaluate", evaluate, 60000, err) == PLAIT_OK);
  plait_dataset_free(train.release());  // the engine keeps it
  auto metrics = host::sized<plait_metrics>();
  REQUIRE(plait_engine_step(fed.engine, nullptr, 60000, &metrics, err) == PLAIT_OK);
  CHECK(metrics.targets == 16);
  REQUIRE(plait_engine_evaluate(fed.engine, nullptr, 60000, &metrics, err) == PLAIT_OK);
  CHECK(metrics.targets == 2 * 16);
  fed.set_tokens();
  CHECK(fed.step(nullptr, err) == PLAIT_INVALID_ARGUMENT);  // a batch beside a data set
  REQUIRE(plait_engine_attach_dataset(fed.engine, "train", nullptr, 60000, err) == PLAIT_OK);
  CHECK(fed.step(nullptr, err) == PLAIT_OK);
}

TEST_CASE("Weights of a Hugging Face directory load into an engine", "[capi]") {
  const host::Folder folder;
  host::write_tiny_gpt2(folder.path("m"));
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context, R"({"train.global_batch":1,"threads":1})");
  Err err;
  REQUIRE(plait_config_load_hf(config, folder.path("m").c_str(), err) == PLAIT_OK);
  const host::Group group = host::make_group(context, config);
  host::Engine engine;
  REQUIRE(plait_engine_create(group, config, 60000, engine.out(), err) == PLAIT_OK);
  host::Bytes report;
  REQUIRE(plait_checkpoint_load(engine, folder.path("m").c_str(), 60000, report.out(), err) ==
          PLAIT_OK);
  host::Checkpoint source;
  REQUIRE(plait_checkpoint_open(context, folder.path("m").c_str(), source.out(), err) == PLAIT_OK);
  for (int64_t i = 0; i < plait_checkpoint_entry_count(source); ++i) {
    auto info = host::sized<plait_entry_info>();
    REQUIRE(plait_checkpoint_entry_at(source, i, &info, err) == PLAIT_OK);
    const void* data = nullptr;
    int64_t bytes = 0;
    REQUIRE(plait_checkpoint_map(source, info.name, PLAIT_KIND_PARAM, &data, &bytes, err) ==
            PLAIT_OK);
    std::vector<char> live(static_cast<size_t>(bytes));
    REQUIRE(plait_engine_tensor_read(engine, info.name, PLAIT_KIND_PARAM, PLAIT_DTYPE_FLOAT32,
                                     60000, live.data(), bytes, err) == PLAIT_OK);
    CHECK(std::memcmp(live.data(), data, live.size()) == 0);
  }
  CHECK(plait_checkpoint_load(engine, folder.path("none").c_str(), 60000, report.out(), err) ==
        PLAIT_NOT_FOUND);
}
