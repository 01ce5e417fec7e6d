// The engine as a host meets it: batches, errors, stops, tensors, generation, reports, memory.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/base/error.h"
#include "tests/support/local_world.h"
#include "tests/support/tiny_model.h"

using namespace plait;
using namespace plait::test;

namespace {

/// Runs `call`, which must throw, and returns the error.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  FAIL("the call went through");
  return Error("invariant", "");
}

bool has(const Error& error, const std::string& text) {
  INFO(error.message());
  return error.message().find(text) != std::string::npos;
}

/// An engine on the ranks of `world`, whatever its keys say of them.
std::unique_ptr<Engine> make_engine(World* world, Log* log, const Keys& keys) {
  EngineOptions options;
  options.env = &posix_env();
  options.log = log;
  options.world = world;
  return Engine::create(tiny_config(keys), options, -1);
}

}  // namespace

TEST_CASE("F9, trap 15: an id outside the vocabulary is named, the engine stays usable",
          "[engine]") {
  TestEngine engine(tiny_config());
  std::vector<int32_t> rows = random_rows(4, 17, 61, 1);
  for (int32_t bad : {61, 100, 128, -1, 1 << 30}) {
    std::vector<int32_t> wrong = rows;
    wrong[2 * 17 + 5] = bad;
    const Error error = error_of([&] { step(*engine, token_batch(wrong, 4)); });
    CHECK(error.word() == "token_range");
    CHECK(has(error, "tensor=tokens sequence=2 position=5 value=" + std::to_string(bad)));
    CHECK(has(error, "vocabulary=61"));
  }
  std::vector<int32_t> tokens(64, 1), targets(64, 1);
  targets[17] = -2;
  const Error error = error_of([&] { step(*engine, target_batch(tokens, targets, 4)); });
  CHECK(has(error, "tensor=targets sequence=1 position=1 value=-2"));
  CHECK(step(*engine, token_batch(rows, 4)).step == 1);
}

TEST_CASE("wrong shapes name both numbers", "[engine]") {
  TestEngine engine(tiny_config({{"layout.micro_batch", "2"}}));
  const std::vector<int32_t> rows = random_rows(6, 17, 61, 1);
  CHECK(has(error_of([&] { step(*engine, token_batch(rows, 6)); }), "rows=6 want=4"));
  const std::vector<int32_t> narrow = random_rows(4, 16, 61, 1);
  CHECK(has(error_of([&] { step(*engine, token_batch(narrow, 4)); }), "columns=16"));
  const std::vector<int32_t> odd = random_rows(3, 17, 61, 1);
  CHECK(has(error_of([&] { forward_backward(*engine, token_batch(odd, 3)); }), "rows=3"));
  CHECK(error_of([&] { step(*engine, Batch{}); }).word() == "argument");
  CHECK(error_of([&] { engine->step(nullptr, -1, nullptr); }).word() == "argument");
  CHECK(error_of([&] { engine->evaluate(nullptr, -1, nullptr); }).word() == "argument");
  Batch batch = token_batch(rows, 6);
  batch.tokens.rows = 4;
  std::vector<int32_t> documents(4 * 17, 1);
  documents[3] = 0;
  batch.documents = {documents.data(), 4, 17};
  CHECK(has(error_of([&] { step(*engine, batch); }), "tensor=documents sequence=0 position=3"));
}

TEST_CASE("calls out of order are refused by name", "[engine]") {
  TestEngine engine(tiny_config());
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 2);
  CHECK(error_of([&] { optimizer_step(*engine); }).word() == "mid_step");
  TestEngine canonical(tiny_config({{"precision.reduction", "canonical"}}));
  const Error refused = error_of([&] { forward_backward(*canonical, token_batch(rows, 4)); });
  CHECK(refused.word() == "not_built");
  CHECK(has(refused, "call=forward_backward"));
  CHECK(step(*canonical, token_batch(rows, 4)).step == 1);
  CHECK(error_of([&] { read(*engine, "final_norm.weight", TensorKind::kGradient); }).word() ==
        "mid_step");
  forward_backward(*engine, token_batch(rows, 4));
  CHECK(error_of([&] { step(*engine, token_batch(rows, 4)); }).word() == "mid_step");
  CHECK(optimizer_step(*engine).step == 1);
  CHECK(error_of([&] { engine->set("model.layers", "3"); }).word() == "argument");
  engine->set("generate.temperature", "0");
  engine->close(-1);
  CHECK(error_of([&] { step(*engine, token_batch(rows, 4)); }).word() == "closed");
  CHECK(engine->state() == EngineState::kClosed);
}

TEST_CASE("what this build has not is refused by name", "[engine]") {
  const auto word = [](const Keys& keys) {
    return error_of([&] { TestEngine engine(tiny_config(keys)); });
  };
  CHECK(word({{"device", "cuda"}}).word() == "not_built");
  CHECK(word({{"precision.matmul", "bf16x3"}}).word() == "not_built");
  CHECK(has(word({{"layout.micro_batch", "3"}}), "layout.micro_batch"));
  CHECK(has(word({{"layout.micro_batch", "8"}}), "8"));  // M4: larger than the batch
  const std::unique_ptr<World> world = local_world(tiny_config({{"layout.data", "4"}}));
  EngineOptions options;
  options.env = &posix_env();
  options.world = world.get();
  const Error error = error_of([&] { Engine::create(tiny_config(), options, -1); });
  CHECK(error.word() == "topology");
  CHECK(has(error, "world=4"));
}

TEST_CASE("keys of the layout that are auto are filled by the planner", "[engine]") {
  const Keys keys = {{"layout.tensor", "auto"},   {"layout.pipeline", "auto"},
                     {"layout.data", "auto"},     {"layout.micro_batch", "auto"},
                     {"layout.schedule", "auto"}, {"layout.zero", "1"}};
  const std::unique_ptr<World> world = local_world(tiny_config({{"layout.data", "4"}}));
  Log log(posix_env().clock);
  std::string chosen;
  for (int round = 0; round < 2; ++round) {
    const std::unique_ptr<Engine> engine = make_engine(world.get(), &log, keys);
    const auto config = nlohmann::json::parse(engine->report("config"));
    const int64_t ranks = config["layout.tensor"].get<int64_t>() *
                          config["layout.pipeline"].get<int64_t>() *
                          config["layout.data"].get<int64_t>();
    CHECK(ranks == 4);
    CHECK(config["layout.zero"] == 1);  // what is given stays
    for (const auto& [key, value] : config.items()) {
      if (key.starts_with("layout.")) CHECK(value != "auto");
    }
    const std::vector<int32_t> rows = random_rows(4, 17, 61, 1);
    CHECK(step(*engine, token_batch(rows, 4)).step == 1);
    std::string line;
    for (LogRecord record; log.pop(&record);) {
      if (record.message.starts_with("layout chosen by the planner: tensor=")) {
        line = record.message;
      }
    }
    CHECK(!line.empty());
    if (round > 0) CHECK(line == chosen);
    chosen = line;
  }
}

TEST_CASE("a layout that nothing can fill is an error with rule and reason", "[engine]") {
  const std::unique_ptr<World> world = local_world(tiny_config({{"layout.data", "3"}}));
  const Keys keys = {{"layout.tensor", "auto"}, {"layout.pipeline", "1"}, {"layout.data", "1"}};
  const Error error = error_of([&] { make_engine(world.get(), nullptr, keys); });
  CHECK(error.word() == "argument");
  CHECK(has(error, "world=3"));
  CHECK(has(error, "rule=heads"));
}

TEST_CASE("a requested stop ends the next step, with its result", "[engine]") {
  TestEngine engine(tiny_config());
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 3);
  const Batch batch = token_batch(rows, 4);
  engine->request_stop();
  Metrics metrics;
  CHECK(engine->step(&batch, -1, &metrics) == Outcome::kStopped);
  CHECK(metrics.step == 1);
  CHECK(engine->step(&batch, -1, &metrics) == Outcome::kDone);
  CHECK(metrics.step == 2);
  engine->request_stop();
  CHECK(engine->evaluate(&batch, -1, &metrics) == Outcome::kStopped);
  CHECK(engine->evaluate(&batch, -1, &metrics) == Outcome::kDone);
}

TEST_CASE("an abort from another thread ends a call within a second", "[engine]") {
  TestEngine engine(tiny_config({{"train.global_batch", "4096"}, {"model.layers", "6"}}));
  const std::vector<int32_t> rows = random_rows(4096, 17, 61, 4);
  std::chrono::steady_clock::time_point at;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    at = std::chrono::steady_clock::now();
    engine->abort();
  });
  const Error error = error_of([&] {
    for (;;) step(*engine, token_batch(rows, 4096));
  });
  other.join();
  CHECK(error.word() == "aborted");
  CHECK(error.disposition() == Disposition::kEngineLost);
  CHECK(std::chrono::steady_clock::now() - at < std::chrono::seconds(1));
  CHECK(engine->state() == EngineState::kLost);
  CHECK(error_of([&] { evaluate(*engine, token_batch(rows, 4096)); }).word() == "aborted");
  CHECK(engine->counter("steps") >= 0);
  CHECK_FALSE(engine->report("operations").empty());
}

TEST_CASE("a call past its limit loses the engine and says so", "[engine]") {
  TestEngine engine(tiny_config({{"train.global_batch", "16384"}, {"model.layers", "8"}}));
  const std::vector<int32_t> rows = random_rows(16384, 17, 61, 5);
  const Batch batch = token_batch(rows, 16384);
  const Error error = error_of([&] { engine->step(&batch, 100, nullptr); });
  CHECK(error.word() == "deadline");
  CHECK(error.disposition() == Disposition::kEngineLost);
  CHECK(has(error, "limit_ms=100"));
}

TEST_CASE("tensors are read in any dtype at any alignment and written back", "[engine]") {
  TestEngine engine(tiny_config({{"precision.compute", "bf16"}}));
  const std::string name = "layers.0.attention.key.weight";
  const std::vector<float> master = read(*engine, name, TensorKind::kMaster);
  std::vector<char> bytes(master.size() * 2 + 1);
  engine->read_tensor(name, TensorKind::kMaster, DType::kBFloat16, -1, bytes.data() + 1,
                      static_cast<int64_t>(bytes.size() - 1));
  for (size_t i = 0; i < master.size(); ++i) {
    BFloat16 value;
    std::memcpy(&value, bytes.data() + 1 + 2 * i, 2);
    if (value.bits != to_bfloat16(master[i]).bits) FAIL(i);
  }
  std::vector<float> changed = master;
  for (float& value : changed) value *= 1.5f;
  write(*engine, name, changed);
  CHECK((read(*engine, name, TensorKind::kMaster) == changed));
  CHECK((read(*engine, "layers.0.attention.query.weight", TensorKind::kMaster).size() == 1024));
  CHECK(error_of([&] { read(*engine, "layers.9.x", TensorKind::kParam); }).word() == "argument");
  const Error size = error_of([&] {
    engine->read_tensor(name, TensorKind::kParam, DType::kFloat32, -1, changed.data(), 12);
  });
  CHECK(has(size, "bytes=12 want=4096"));
  // Names come in byte order, each with its kinds in order.
  const std::vector<TensorEntry>& entries = engine->tensors();
  for (size_t i = 1; i < entries.size(); ++i) {
    const bool is_ordered =
        entries[i - 1].name < entries[i].name ||
        (entries[i - 1].name == entries[i].name && entries[i - 1].kind < entries[i].kind);
    CHECK(is_ordered);
  }
}

TEST_CASE("generation repeats itself, slides past the model's length, and checks its prompt",
          "[engine]") {
  TestEngine engine(tiny_config({{"generate.seed", "5"}}));
  const std::vector<int32_t> prompt = random_rows(1, 20, 61, 6);  // longer than the window of 16
  std::vector<int32_t> first, second, likely;
  engine->generate(prompt.data(), 20, 30, -1, &first);
  engine->generate(prompt.data(), 20, 30, -1, &second);
  CHECK(first.size() == 30);
  CHECK(first == second);
  engine->set("generate.seed", "6");
  engine->generate(prompt.data(), 20, 30, -1, &second);
  CHECK(first != second);
  engine->set("generate.temperature", "0");
  engine->generate(prompt.data(), 20, 5, -1, &likely);
  engine->set("generate.temperature", "1");
  engine->set("generate.top_k", "1");
  engine->generate(prompt.data(), 20, 5, -1, &second);
  CHECK(second == likely);
  CHECK(error_of([&] { engine->generate(prompt.data(), 0, 5, -1, &second); }).word() == "argument");
  const int32_t bad = 61;
  CHECK(error_of([&] { engine->generate(&bad, 1, 5, -1, &second); }).word() == "token_range");
}

TEST_CASE("the first generated token is the likeliest by the scores", "[engine]") {
  TestEngine engine(tiny_config({{"generate.temperature", "0"}, {"train.global_batch", "61"}}));
  const std::vector<int32_t> prompt = random_rows(1, 16, 61, 8);
  std::vector<int32_t> next;
  engine->generate(prompt.data(), 16, 1, -1, &next);
  std::vector<int32_t> tokens, targets;
  for (int32_t id = 0; id < 61; ++id) {
    tokens.insert(tokens.end(), prompt.begin(), prompt.end());
    for (int i = 0; i < 15; ++i) targets.push_back(-1);
    targets.push_back(id);
  }
  std::vector<float> losses(61 * 16);
  engine->score(target_batch(tokens, targets, 61), -1, losses.data(), 61 * 16 * 4);
  int32_t best = 0;
  for (int32_t id = 0; id < 61; ++id) {
    if (losses[static_cast<size_t>(id) * 16 + 15] < losses[static_cast<size_t>(best) * 16 + 15]) {
      best = id;
    }
  }
  CHECK(next[0] == best);
}

TEST_CASE("a batch ramp grows with the samples consumed", "[engine]") {
  TestEngine engine(tiny_config({{"train.global_batch", "16"}, {"train.batch_ramp", "[4,4,32]"}}));
  int64_t samples = 0;
  for (int i = 0; i < 16; ++i) {
    const BatchSpec spec = engine->batch_spec();
    CHECK(spec.global_rows == std::min<int64_t>(4 + 4 * (samples / 32), 16));
    CHECK(spec.first_sample == samples);
    const std::vector<int32_t> rows = random_rows(spec.global_rows, 17, 61, 9);
    samples = step(*engine, token_batch(rows, spec.global_rows)).samples_total;
  }
  CHECK(engine->batch_spec().global_rows == 16);
}

TEST_CASE("reports are JSON and name what runs", "[engine]") {
  TestEngine engine(tiny_config({{"layout.recompute", "full"}}));
  step(*engine, token_batch(random_rows(4, 17, 61, 10), 4));
  for (const char* kind : {"config", "ranks", "kernels", "memory", "schedule", "counters",
                           "properties", "operations"}) {
    INFO(kind);
    CHECK_NOTHROW(nlohmann::json::parse(engine->report(kind)));
  }
  const nlohmann::json kernels = nlohmann::json::parse(engine->report("kernels"));
  CHECK(kernels["compute"] == "float32");
  CHECK(kernels["ops"].size() >= 8);
  const nlohmann::json operations = nlohmann::json::parse(engine->report("operations"));
  CHECK(operations["ranks"][0]["operations"].size() == 10);
  CHECK(operations["ranks"][0]["operations"][1]["operation"] == "backward 0 0");
  const nlohmann::json memory = nlohmann::json::parse(engine->report("memory"));
  CHECK(memory["ranks"][0]["memory"]["total_bytes"] ==
        static_cast<int64_t>(engine->counter("memory_bytes")));
  CHECK(error_of([&] { engine->report("nothing"); }).word() == "argument");
  CHECK(error_of([&] { engine->counter("nothing"); }).word() == "argument");
}

TEST_CASE("properties are checked and reported", "[engine]") {
  TestEngine engine(tiny_config());
  Property property;
  property.name = "host.epoch";
  property.integer = int64_t{1} << 60;
  engine->set_property(property);
  CHECK(engine->report("properties") == R"({"host.epoch":1152921504606846976})");
  property.name = "Not Allowed";
  CHECK(error_of([&] { engine->set_property(property); }).word() == "argument");
}

TEST_CASE("two engines in one process do not influence each other", "[engine]") {
  TestEngine alone(tiny_config()), first(tiny_config()), second(tiny_config({{"seed", "9"}}));
  for (uint64_t i = 0; i < 3; ++i) {
    const std::vector<int32_t> rows = random_rows(4, 17, 61, i);
    const Metrics want = step(*alone, token_batch(rows, 4));
    step(*second, token_batch(rows, 4));
    CHECK(step(*first, token_batch(rows, 4)).loss == want.loss);
  }
  CHECK((read_all(*first, TensorKind::kParam) == read_all(*alone, TensorKind::kParam)));
}
