// Loads that fail, and what they leave: damaged steps, other runs, weights alone, limits of time.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/engine/trainer/open_engine.h"
#include "tests/engine/trainer/resume_support.h"
#include "tests/support/fault_files.h"

using namespace plait;
using namespace plait::test;

namespace {

/// A root with steps 1 to `steps` of a run, whose last engine state is `end`.
class SavedRun {
 public:
  explicit SavedRun(int64_t steps, const Keys& keys = {}) : config(tiny_config(resume_keys(keys))) {
    TestEngine engine(config);
    for (int64_t step = 1; step <= steps; ++step) {
      resume_step(*engine);
      save_now(*engine, root());
      states.push_back(state_bits(*engine));
    }
  }
  std::string root() const { return folder_.file("root"); }
  std::string path(int64_t step) const { return step_path(root(), step); }

  const Config config;
  std::vector<std::vector<uint32_t>> states;  // after step 1, 2, …

 private:
  TempDirectory folder_;
};

/// Offset of a byte in the middle of the last slice of a shard.
size_t late_byte(const std::string& path) { return bytes_of(path).size() - 40; }

Config with(Config config, const char* key, const char* value) {
  config.set(key, value);
  return config;
}

}  // namespace

TEST_CASE("L1, L3: a root falls back from what is damaged and says so", "[load]") {
  struct Case {
    const char* file;
    const char* word;  // of the report
    bool is_removed = false;
  };
  for (const Case& one : {Case{"/s00000.plt", "corrupt"}, Case{"/s00000.idx", "corrupt"},
                          Case{"/MANIFEST", "corrupt"}, Case{"/s00001.plt", "missing_shard", true},
                          Case{"/s00001.idx", "missing_shard", true}}) {
    INFO(one.file);
    const SavedRun run(3, {{"layout.data", "2"}, {"layout.zero", "1"}});
    const std::string file = run.path(3) + one.file;
    if (one.is_removed) {
      posix_env().files.unlink(file);
    } else {
      flip_byte(file, late_byte(file));
    }
    for (const bool is_fresh : {true, false}) {
      TestEngine engine(run.config);
      if (!is_fresh) resume_steps(*engine, 2);
      const nlohmann::json report = loaded(*engine, run.root());
      CHECK(report["step"] == 2);
      REQUIRE(report["skipped"].size() == 1);
      CHECK(report["skipped"][0]["name"] == "step-000000000003");
      CHECK(report["skipped"][0]["word"] == one.word);
      CHECK((state_bits(*engine) == run.states[1]));
    }
    TestEngine engine(with(run.config, "checkpoint.fallback", "false"));
    const std::vector<uint32_t> before = state_bits(*engine);
    CHECK(thrown_by([&] { engine->load(run.root(), -1); }).word() == one.word);
    CHECK((state_bits(*engine) == before));
    engine->set("checkpoint.fallback", "true");
    CHECK(thrown_by([&] { engine->load(run.path(3), -1); }).word() == one.word);
    CHECK((state_bits(*engine) == before));
    CHECK(loaded(*engine, run.path(1))["step"] == 1);
  }
}

TEST_CASE("a failed load leaves a fresh and a stepped engine as they were", "[load]") {
  for (const char* zero : {"0", "3"}) {
    const SavedRun run(
        1, {{"layout.data", "2"}, {"layout.zero", zero}, {"precision.compute", "bf16"}});
    flip_byte(run.path(1) + "/s00001.plt", late_byte(run.path(1) + "/s00001.plt"));
    TestEngine fresh(run.config), cold(run.config), stepped(run.config), twin(run.config);
    resume_steps(*stepped, 3);
    resume_steps(*twin, 3);
    for (TestEngine* engine : {&fresh, &stepped}) {
      const Error error = thrown_by([&] { (*engine)->load(run.path(1), -1); });
      CHECK(error.word() == "corrupt");
      CHECK(error.disposition() == Disposition::kUnchanged);
      CHECK(says(error, "s00001.plt"));
      CHECK((*engine)->state() == EngineState::kReady);
    }
    CHECK((state_bits(*fresh) == state_bits(*cold)));
    CHECK((state_bits(*stepped) == state_bits(*twin)));
    CHECK(resume_step(*fresh) == resume_step(*cold));
    CHECK(resume_step(*stepped) == resume_step(*twin));
    CHECK((state_bits(*fresh) == state_bits(*cold)));
    CHECK((state_bits(*stepped) == state_bits(*twin)));
  }
}

TEST_CASE("what the host has written is no initial state: a failed load keeps it", "[load]") {
  const SavedRun run(1);
  flip_byte(run.path(1) + "/s00000.plt", late_byte(run.path(1) + "/s00000.plt"));
  TestEngine engine(run.config);
  std::vector<float> values = read(*engine, "final_norm.weight", TensorKind::kParam);
  for (float& value : values) value += 0.5f;
  write(*engine, "final_norm.weight", values);
  CHECK(thrown_by([&] { engine->load(run.path(1), -1); }).word() == "corrupt");
  CHECK((read(*engine, "final_norm.weight", TensorKind::kParam) == values));
}

TEST_CASE("an error in the second pass over a stepped engine loses it", "[load]") {
  const SavedRun run(1);
  FaultFiles files(posix_env().files);
  Env env{files, posix_env().clock, posix_env().entropy};
  OpenEngine::Options options;
  options.env = &env;
  OpenEngine counted(run.config, options), failing(run.config, options);
  resume_steps(*counted, 1);
  resume_steps(*failing, 1);
  const int64_t before = files.count(FileOperation::kRead);
  counted->load(run.path(1), -1);
  const int64_t reads = files.count(FileOperation::kRead) - before;
  files.fail(FileOperation::kRead, files.count(FileOperation::kRead) + reads - 1, EIO);
  const Error error = thrown_by([&] { failing->load(run.path(1), -1); });
  CHECK(error.word() == "io_error");
  CHECK(error.disposition() == Disposition::kEngineLost);
  CHECK(failing->state() == EngineState::kLost);
  CHECK(thrown_by([&] { resume_step(*failing); }).word() == "aborted");
}

TEST_CASE("checkpoint.mmap: a load maps what it takes", "[load]") {
  const SavedRun run(1);
  FaultFiles files(posix_env().files);
  Env env{files, posix_env().clock, posix_env().entropy};
  OpenEngine::Options options;
  options.env = &env;
  OpenEngine engine(run.config, options);
  engine->load(run.path(1), -1);
  CHECK(files.count(FileOperation::kMap) == 0);
  engine->set("checkpoint.mmap", "true");
  int64_t shard_reads = 0;
  files.before_each([&](FileOperation operation, const std::string& path) {
    shard_reads += operation == FileOperation::kRead && path.ends_with(".plt") ? 1 : 0;
  });
  engine->load(run.path(1), -1);
  CHECK(shard_reads == 0);
  CHECK(files.count(FileOperation::kMap) > 0);
  CHECK((state_bits(*engine) == run.states[0]));
}

TEST_CASE("checkpoint.io_threads: a load reads shards at the same time, and fails alike",
          "[load]") {
  const SavedRun run(1, {{"layout.data", "2"}, {"layout.zero", "1"}});
  std::atomic<int> threads{0};
  OpenEngine::Options options;
  options.hooks.start = [&](const char* name) {
    threads += std::string(name) == "plait-io" ? 1 : 0;
  };
  OpenEngine engine(run.config, options);
  engine->load(run.path(1), -1);
  CHECK(threads == 2);
  CHECK((state_bits(*engine) == run.states[0]));
  for (const char* shard : {"/s00000.plt", "/s00001.plt"}) {
    flip_byte(run.path(1) + shard, late_byte(run.path(1) + shard));
  }
  for (const char* count : {"1", "2"}) {
    threads = 0;
    engine->set("checkpoint.io_threads", count);
    for (int i = 0; i < 10; ++i) {
      const Error error = thrown_by([&] { engine->load(run.path(1), -1); });
      CHECK(error.word() == "corrupt");
      CHECK(says(error, "s00000.plt"));
    }
    CHECK(threads == (count[0] == '1' ? 0 : 20));
  }
  CHECK((state_bits(*engine) == run.states[0]));
}

TEST_CASE("S4 of faults: each read of a load that fails leaves the state as it was", "[load]") {
  const SavedRun run(1);
  FaultFiles files(posix_env().files);
  Env env{files, posix_env().clock, posix_env().entropy};
  OpenEngine::Options options;
  options.env = &env;
  OpenEngine engine(run.config, options);
  const std::vector<uint32_t> before = state_bits(*engine);
  for (int64_t nth = 0;; ++nth) {
    REQUIRE(nth < 1000);
    files.fail(FileOperation::kRead, files.count(FileOperation::kRead) + nth, EIO);
    const int64_t first = files.count(FileOperation::kRead);
    try {
      engine->load(run.path(1), -1);
    } catch (const Error& error) {
      CHECK(error.word() == "io_error");
      CHECK((state_bits(*engine) == before));
      continue;
    }
    CHECK(files.count(FileOperation::kRead) - first == nth);  // it was to fail after the last
    break;
  }
  CHECK((state_bits(*engine) == run.states[0]));
}

TEST_CASE("L9: where there is no checkpoint, a load says so", "[load]") {
  const TempDirectory folder;
  std::filesystem::create_directories(folder.file("tmp/tmp-000000000001-00000000000000ff"));
  std::filesystem::create_directories(folder.file("empty"));
  std::filesystem::create_directories(folder.file("bare/step-000000000001"));
  TestEngine engine(tiny_config());
  const std::vector<uint32_t> before = state_bits(*engine);
  for (const char* name : {"nothing", "empty", "tmp", "bare", "bare/step-000000000001"}) {
    INFO(name);
    const Error error = thrown_by([&] { engine->load(folder.file(name), -1); });
    CHECK(error.word() == "no_checkpoint");
    CHECK(error.code() == Code::kNotFound);
    CHECK((state_bits(*engine) == before));
  }
  forward_backward(*engine, token_batch(random_rows(4, 17, 61, 1), 4));
  CHECK(thrown_by([&] { engine->load(folder.file("empty"), -1); }).word() == "mid_step");
}

TEST_CASE("L8: another run is refused with all differences, and no older step is taken", "[load]") {
  const SavedRun run(2);
  Config other = run.config;
  for (const auto& [key, value] : Keys{{"model.layers", "3"},
                                       {"seed", "77"},
                                       {"optimizer.lr", "0.5"},
                                       {"threads", "1"},
                                       {"train.replica_check_every", "7"}}) {
    other.set(key, value);
  }
  TestEngine engine(other);
  const Error error = thrown_by([&] { engine->load(run.root(), -1); });
  CHECK(error.word() == "config_mismatch");
  const nlohmann::json details = nlohmann::json::parse(error.details());
  std::vector<std::string> keys;
  for (const nlohmann::json& row : details["differences"]) keys.push_back(row["key"]);
  CHECK(keys == std::vector<std::string>{"model.layers", "optimizer.lr", "seed", "random"});
  CHECK(details["differences"][0]["file"] == "2");
  CHECK(details["differences"][0]["run"] == "3");
}

TEST_CASE("weights alone load into a new run, and nothing else of what was", "[load]") {
  const SavedRun run(3);
  const Config weights = with(run.config, "checkpoint.weights_only", "true");
  TestEngine stepped(weights);
  resume_steps(*stepped, 2);
  const nlohmann::json report = loaded(*stepped, run.root());
  CHECK(report["weights_only"] == true);
  TestEngine source(run.config);
  source->load(run.root(), -1);
  CHECK((read_all(*stepped, TensorKind::kMaster) == read_all(*source, TensorKind::kMaster)));
  for (const TensorKind kind : {TensorKind::kMoment1, TensorKind::kMoment2}) {
    for (const float value : read_all(*stepped, kind)) REQUIRE(value == 0.0f);
  }
  CHECK(stepped->counter("steps") == 0);
  CHECK(stepped->batch_spec().first_sample == 0);
  // As a new run with these weights: rate, corrections, masks and data begin anew.
  TestEngine written(weights);
  for (const std::string& name : tensor_names(*source)) {
    write(*written, name, read(*source, name, TensorKind::kMaster));
  }
  CHECK((resume_steps(*stepped, 2) == resume_steps(*written, 2)));
  CHECK((state_bits(*stepped) == state_bits(*written)));
}

TEST_CASE(
    "a checkpoint of weights alone asks for weights_only, and changes optimizer and seed freely",
    "[load]") {
  const SavedRun run(2, {{"checkpoint.weights_only", "true"}, {"precision.compute", "bf16"}});
  Config whole = run.config;
  whole.set("checkpoint.weights_only", "false");
  TestEngine engine(whole);
  const std::vector<uint32_t> before = state_bits(*engine);
  CHECK(thrown_by([&] { engine->load(run.root(), -1); }).word() == "weights_only");
  CHECK((state_bits(*engine) == before));
  engine->set("checkpoint.weights_only", "true");
  engine->load(run.root(), -1);
  CHECK(engine->counter("steps") == 0);
  Config other = run.config;
  for (const auto& [key, value] :
       Keys{{"seed", "7"}, {"optimizer.lr", "1"}, {"precision.compute", "fp32"}}) {
    other.set(key, value);
  }
  TestEngine tuned(other);
  tuned->load(run.root(), -1);
  CHECK((read_all(*tuned, TensorKind::kMaster) == read_all(*engine, TensorKind::kMaster)));
  other.set("model.layers", "3");
  TestEngine larger(other);
  CHECK(thrown_by([&] { larger->load(run.root(), -1); }).word() == "config_mismatch");
}

TEST_CASE("L10: weights that are not finite load, unless check_finite refuses them", "[load]") {
  const TempDirectory folder;
  const Config config = tiny_config();
  TestEngine first(config);
  resume_step(*first);
  std::vector<float> values = read(*first, "embedding.token.weight", TensorKind::kParam);
  values[3 * 32 + 5] = std::numeric_limits<float>::quiet_NaN();
  write(*first, "embedding.token.weight", values);
  save_now(*first, folder.file("root"));
  const std::vector<uint32_t> saved = state_bits(*first);
  for (const bool is_fresh : {true, false}) {
    TestEngine engine(config);
    if (!is_fresh) resume_step(*engine);
    const std::vector<uint32_t> before = state_bits(*engine);
    engine->set("checkpoint.check_finite", "true");
    const Error error = thrown_by([&] { engine->load(folder.file("root"), -1); });
    CHECK(error.word() == "nonfinite_weights");
    CHECK(says(error, "tensor=embedding.token.weight index=101"));
    CHECK((state_bits(*engine) == before));
    engine->set("checkpoint.check_finite", "false");
    engine->load(folder.file("root"), -1);
    CHECK((state_bits(*engine) == saved));
  }
}

TEST_CASE("verify=full refuses what no slice covers", "[load]") {
  const SavedRun run(1);
  // Byte 70 of a shard is one of the zeros of its header.
  flip_byte(run.path(1) + "/s00000.plt", 70);
  TestEngine engine(run.config);
  engine->set("checkpoint.verify", "full");
  const Error error = thrown_by([&] { engine->load(run.path(1), -1); });
  CHECK(error.word() == "corrupt");
  engine->set("checkpoint.verify", "slices");
  engine->load(run.path(1), -1);
  CHECK((state_bits(*engine) == run.states[0]));
}

TEST_CASE("numerics that changed are a warning, or refused where they must not", "[load]") {
  const SavedRun run(1, {{"isa", "baseline"}});
  TestEngine engine(with(run.config, "isa", "ssse3"));
  engine->set("checkpoint.numerics", "strict");
  const Error error = thrown_by([&] { engine->load(run.root(), -1); });
  CHECK(error.word() == "numerics_changed");
  CHECK(says(error, "ssse3"));
  engine->set("checkpoint.numerics", "warn");
  const nlohmann::json report = loaded(*engine, run.root());
  REQUIRE(report["warnings"].size() == 1);
  CHECK(report["warnings"][0].get<std::string>().find("isa from baseline to ssse3") !=
        std::string::npos);
}

TEST_CASE("a load past its limit ends and leaves the state as it was", "[load]") {
  const SavedRun run(1);
  FaultFiles files(posix_env().files);
  files.before_each([](FileOperation operation, const std::string& path) {
    const bool is_slow =
        operation == FileOperation::kRead && path.find(".plt") != std::string::npos;
    if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(400));
  });
  Env env{files, posix_env().clock, posix_env().entropy};
  OpenEngine::Options options;
  options.env = &env;
  OpenEngine engine(with(run.config, "checkpoint.load_timeout_ms", "100"), options);
  const std::vector<uint32_t> before = state_bits(*engine);
  const Error error = thrown_by([&] { engine->load(run.root(), -1); });
  CHECK(error.word() == "deadline");
  CHECK(says(error, "limit_ms=100"));
  CHECK((state_bits(*engine) == before));
  files.before_each({});
  engine->set("checkpoint.load_timeout_ms", "60000");
  engine->load(run.root(), -1);
  CHECK((state_bits(*engine) == run.states[0]));
}

TEST_CASE("an abort from another thread ends a load", "[load]") {
  const SavedRun run(1);
  FaultFiles files(posix_env().files);
  OpenEngine* target = nullptr;
  files.before_each([&](FileOperation operation, const std::string& path) {
    const bool is_data =
        operation == FileOperation::kRead && path.find(".plt") != std::string::npos;
    if (!is_data) return;
    (*target)->abort();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  Env env{files, posix_env().clock, posix_env().entropy};
  OpenEngine::Options options;
  options.env = &env;
  OpenEngine engine(run.config, options);
  target = &engine;
  CHECK(thrown_by([&] { engine->load(run.root(), -1); }).word() == "aborted");
  CHECK(engine->state() == EngineState::kLost);
}

TEST_CASE("a request of a stop ends a load without effect", "[load]") {
  const SavedRun run(2);
  for (const int steps : {0, 3}) {  // into fresh state, and beside what is there
    FaultFiles files(posix_env().files);
    OpenEngine* target = nullptr;
    files.before_each([&](FileOperation operation, const std::string& path) {
      if (operation != FileOperation::kRead || path.find(".plt") == std::string::npos) return;
      if (target != nullptr) (*target)->request_stop();
      target = nullptr;
    });
    Env env{files, posix_env().clock, posix_env().entropy};
    OpenEngine::Options options;
    options.env = &env;
    OpenEngine engine(run.config, options);
    resume_steps(*engine, steps);
    const std::vector<uint32_t> before = state_bits(*engine);
    target = &engine;
    std::string report = "untouched";
    CHECK(engine->load(run.root(), -1, &report) == Outcome::kStopped);
    CHECK(report == "untouched");
    CHECK((state_bits(*engine) == before));
    CHECK(engine->counter("steps") == steps);
    // The request is spent.
    CHECK(loaded(*engine, run.root())["step"] == 2);
    CHECK((state_bits(*engine) == run.states.back()));
  }
}
