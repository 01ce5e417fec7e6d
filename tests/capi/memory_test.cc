// Every allocation of the library fails in turn: always a code, never an exception or an end of the
// process. The program's own operator new serves the library too, so this test stands alone.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "tests/capi/host.h"

namespace {

constexpr int64_t kNever = INT64_MAX;
std::atomic<int64_t> left{kNever};  // allocations until one fails

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (left.load(std::memory_order_relaxed) != kNever && left.fetch_sub(1) == 0) return nullptr;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, bytes == 0 ? alignment : bytes);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Calls `body` with the n-th allocation failing, n = 0, 1, … until none fails; returns the count.
int64_t exhaust(int64_t most, const std::function<int32_t(plait_error**)>& body) {
  for (int64_t n = 0; n < most; ++n) {
    plait_error* err = nullptr;
    left = n;
    const int32_t code = body(&err);
    const bool has_failed = left.exchange(kNever) < 0;
    INFO("allocation " << n << ": " << plait_error_message(err));
    CHECK(plait_error_code(err) == code);
    if (code != PLAIT_OK) {
      CHECK(code == PLAIT_RESOURCE_EXHAUSTED);
      CHECK(std::string(plait_error_word(err)) == "no_memory");
    }
    plait_error_free(err);
    if (!has_failed) return n;
  }
  return most;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, 16); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 16);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 16);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

TEST_CASE("Context and configuration survive every failing allocation", "[capi]") {
  const std::string json = host::tiny_model();
  const int64_t allocations = exhaust(2000, [&](plait_error** err) {
    plait_context* context = nullptr;
    plait_config* config = nullptr;
    plait_bytes* dump = nullptr;
    int32_t code = plait_context_create(PLAIT_API_VERSION, nullptr, &context, err);
    if (code == PLAIT_OK) code = plait_config_create(context, &config, err);
    if (code == PLAIT_OK) {
      code = plait_config_load(config, json.data(), static_cast<int64_t>(json.size()), err);
    }
    if (code == PLAIT_OK) code = plait_config_check(config, err);
    if (code == PLAIT_OK) code = plait_config_dump(config, 1, &dump, err);
    plait_bytes_free(dump);
    plait_config_free(config);
    plait_context_free(context);
    return code;
  });
  CHECK(allocations > 50);
  CHECK(allocations < 2000);
}

TEST_CASE("A failing call survives every failing allocation of its error", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  for (int64_t n = 0; n < 40; ++n) {
    plait_error* err = nullptr;
    left = n;
    const int32_t code = plait_config_set(config, "no.such.key.at.all", "1", &err);
    left = kNever;
    CHECK((code == PLAIT_INVALID_ARGUMENT || code == PLAIT_RESOURCE_EXHAUSTED));
    CHECK(plait_error_code(err) == code);
    plait_error_free(err);
  }
}

TEST_CASE("Data and tokens survive every failing allocation", "[capi]") {
  const host::Folder folder;
  folder.write("d.bin", std::string(400, '\1'));
  const host::Context context = host::make_context();
  const host::Config config =
      host::make_config(context, "{\"data.train\":\"" + folder.path("d.bin") +
                                     "\",\"train.sequence_length\":8,\"model.vocab_size\":300}");
  exhaust(3000, [&](plait_error** err) {
    plait_dataset* dataset = nullptr;
    plait_bytes* values = nullptr;
    int32_t code = plait_dataset_open(context, config, "train", &dataset, err);
    if (code == PLAIT_OK) code = plait_dataset_read(dataset, "tokens", 0, 4, &values, err);
    plait_bytes_free(values);
    plait_dataset_free(dataset);
    return code;
  });
  exhaust(3000, [&](plait_error** err) {
    plait_tokenizer* tokenizer = nullptr;
    plait_bytes* tokens = nullptr;
    int32_t code = plait_tokenizer_open(context, "byte", nullptr, &tokenizer, err);
    if (code == PLAIT_OK) code = plait_tokenizer_encode(tokenizer, "text", 4, &tokens, err);
    plait_bytes_free(tokens);
    plait_tokenizer_free(tokenizer);
    return code;
  });
}

TEST_CASE("Creating an engine and a step survive failing allocations 1 to 500", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context, host::tiny_model());
  const std::vector<int32_t> tokens(2 * 9, 1);
  exhaust(500, [&](plait_error** err) {
    plait_group* group = nullptr;
    plait_engine* engine = nullptr;
    plait_batch* batch = nullptr;
    int32_t code = plait_group_create(context, config, 0, 1, 1, &group, err);
    if (code == PLAIT_OK) code = plait_engine_create(group, config, 60000, &engine, err);
    if (code == PLAIT_OK) code = plait_batch_create(engine, PLAIT_BATCH_GLOBAL, &batch, err);
    if (code == PLAIT_OK) code = plait_batch_set(batch, "tokens", tokens.data(), 2, 9, err);
    if (code == PLAIT_OK) code = plait_engine_step(engine, batch, 60000, nullptr, err);
    plait_batch_free(batch);
    plait_engine_free(engine);
    plait_group_free(group);
    return code;
  });
  host::Group group = host::make_group(context, config);
  host::Engine engine;
  REQUIRE(plait_engine_create(group, config, 60000, engine.out(), nullptr) == PLAIT_OK);
  host::Batch batch;
  REQUIRE(plait_batch_create(engine, PLAIT_BATCH_GLOBAL, batch.out(), nullptr) == PLAIT_OK);
  exhaust(500, [&](plait_error** err) {
    const int32_t code = plait_batch_set(batch, "tokens", tokens.data(), 2, 9, err);
    return code == PLAIT_OK ? plait_engine_step(engine, batch, 60000, nullptr, err) : code;
  });
}
