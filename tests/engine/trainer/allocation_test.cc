// A step allocates nothing: every operator new of the program is counted while steps run.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "tests/support/tiny_model.h"

namespace {

std::atomic<bool> is_counting{false};
std::atomic<int64_t> allocations{0};

void* counted(size_t bytes) {
  if (is_counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

using namespace plait;
using namespace plait::test;

namespace {

/// On a busy machine a rank may be slow, and then the log says so.
bool has_warned(Log& log) {
  bool has = false;
  for (LogRecord record; log.pop(&record);) has = has || record.level == LogLevel::kWarning;
  return has;
}

}  // namespace

TEST_CASE("a step allocates nothing, traced or not", "[allocation]") {
  const std::string compute = GENERATE("fp32", "bf16", "fp16");
  const std::string family = GENERATE("gpt2", "llama");
  const std::string schedule = GENERATE("one_forward_one_backward", "zero_bubble", "gpipe");
  const std::string ranks = GENERATE("1", "2");
  const std::string reduction = GENERATE("ordered", "canonical");
  if (reduction == "canonical" && schedule == "zero_bubble") return;
  TestEngine engine(tiny_config({{"precision.compute", compute},
                                 {"model.family", family},
                                 {"layout.schedule", schedule},
                                 {"layout.micro_batch", "2"},
                                 {"precision.reduction", reduction},
                                 {"layout.tensor", ranks},
                                 {"layout.pipeline", ranks},
                                 {"train.replica_check_every", "1"},
                                 {"train.dropout", "0.1"}}));
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 1);
  const Batch batch = token_batch(rows, 4);
  Metrics metrics;
  engine->step(&batch, -1, &metrics);
  allocations = 0;
  is_counting = true;
  for (int i = 0; i < 12; ++i) engine->step(&batch, -1, &metrics);  // beyond a window of paces
  is_counting = false;
  INFO(compute << " " << family << " " << schedule << " " << ranks << " " << reduction);
  CHECK((allocations.load() == 0 || has_warned(engine.log())));
  allocations = 0;
  engine->set("trace.steps", "4");  // takes its memory here
  is_counting = true;
  for (int i = 0; i < 3; ++i) engine->step(&batch, -1, &metrics);
  is_counting = false;
  CHECK(allocations.load() == 0);
}
