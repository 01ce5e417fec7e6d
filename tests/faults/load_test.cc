// Checkpoints over several processes: any cut of the ranks over processes loads them, and what
// fails in one process is dropped, or fails, in all alike.
#include <catch2/catch.hpp>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "tests/engine/trainer/resume_support.h"
#include "tests/faults/fault_cases.h"
#include "tests/faults/process_engines.h"
#include "tests/support/fault_files.h"

using namespace plait;
using namespace plait::test;

namespace {

using Bits = std::vector<uint32_t>;

/// Every process does the same and gets the same state.
Bits state_of_all(ProcessEngines& engines) {
  std::vector<Bits> bits(engines.size());
  require_all(engines.each([&](size_t i) { bits[i] = state_bits(engines[i]); }), "");
  for (const Bits& one : bits) REQUIRE((one == bits[0]));
  return bits[0];
}

void train_all(ProcessEngines& engines, int64_t steps) {
  require_all(engines.each([&](size_t i) { resume_steps(engines[i], steps); }), "");
}

/// Loads in all processes; the reports, which must be equal.
nlohmann::json load_all(ProcessEngines& engines, const std::string& path) {
  std::vector<std::string> reports(engines.size());
  require_all(engines.each([&](size_t i) { engines[i].load(path, 20'000, &reports[i]); }), "");
  return nlohmann::json::parse(reports[0]);
}

/// Loads that must end with `word` in all processes.
void refuse_all(ProcessEngines& engines, const std::string& path, const std::string& word) {
  for (const Ending& ending : engines.each([&](size_t i) { engines[i].load(path, 20'000); })) {
    INFO(ending.error.message());
    CHECK(ending.word == word);
  }
}

/// A root with steps 1 and 2, written by two processes, and the states of both.
class ProcessRun {
 public:
  ProcessRun() {
    ProcessEngines engines({1, 3});
    require_all(engines.create(config(degrees(2, 1, 2, 1))), "");
    for (int64_t step = 1; step <= 2; ++step) {
      train_all(engines, 1);
      require_all(engines.each([&](size_t i) { save_now(engines[i], root()); }), "");
      states.push_back(state_of_all(engines));
    }
  }
  static Config config(const Layout& layout) {
    return fault_config(layout, {{"train.dropout", "0.1"}, {"precision.compute", "bf16"}});
  }
  std::string root() const { return folder_.file("root"); }

  std::vector<Bits> states;

 private:
  TempDirectory folder_;
};

}  // namespace

TEST_CASE("a root that some processes wrote loads into others, in another layout",
          "[faults][load]") {
  const ProcessRun run;
  ProcessEngines engines({2, 1, 1});
  require_all(engines.create(ProcessRun::config(degrees(1, 2, 2, 3))), "");
  for (const bool is_fresh : {true, false}) {
    INFO("fresh " << is_fresh);
    CHECK(load_all(engines, run.root())["step"] == 2);
    CHECK((state_of_all(engines) == run.states[1]));
    train_all(engines, 1);
    CHECK(engines[0].counter("steps") == 3);
  }
}

TEST_CASE("L1: a step that one process can not read is dropped by all", "[faults][load]") {
  const ProcessRun run;
  FaultFiles files(posix_env().files);
  Env env{files, posix_env().clock, posix_env().entropy};
  ProcessOptions options;
  options.env = &env;
  ProcessEngines engines({2, 2}, options);
  require_all(engines.create(ProcessRun::config(degrees(2, 2, 1))), "");
  for (const char* part : {"step-000000000002/s00001.plt", "step-000000000002/s00000.idx"}) {
    INFO(part);
    files.fail(FileOperation::kRead, 1, EIO, part);  // the second of both processes' first reads
    const nlohmann::json report = load_all(engines, run.root());
    CHECK(report["step"] == 1);
    REQUIRE(report["skipped"].size() == 1);
    CHECK(report["skipped"][0]["name"] == "step-000000000002");
    CHECK(report["skipped"][0]["word"] == "io_error");
    CHECK((state_of_all(engines) == run.states[0]));
  }
  train_all(engines, 1);
}

TEST_CASE("a load that fails in one process fails in all and changes none", "[faults][load]") {
  const ProcessRun run;
  FaultFiles files(posix_env().files);
  Env env{files, posix_env().clock, posix_env().entropy};
  ProcessOptions options;
  options.env = &env;
  ProcessEngines engines({1, 1, 2}, options);
  require_all(engines.create(ProcessRun::config(degrees(1, 1, 4, 2))), "");
  const std::string path = step_path(run.root(), 2);
  for (const bool is_fresh : {true, false}) {
    INFO("fresh " << is_fresh);
    if (!is_fresh) train_all(engines, 1);
    const Bits before = state_of_all(engines);
    files.fail(FileOperation::kRead, 0, EIO, "step-000000000002/s00002.plt");
    refuse_all(engines, path, "io_error");
    CHECK((state_of_all(engines) == before));
  }
  // Processes that are not given the same step.
  const Bits before = state_of_all(engines);
  for (const Ending& ending : engines.each(
           [&](size_t i) { engines[i].load(step_path(run.root(), i == 1 ? 1 : 2), 20'000); })) {
    CHECK(ending.word == "no_checkpoint");
    CHECK(ending.error.disposition() == Disposition::kUnchanged);
  }
  CHECK((state_of_all(engines) == before));
  CHECK(load_all(engines, run.root())["step"] == 2);
  CHECK((state_of_all(engines) == run.states[1]));
}

TEST_CASE("a process that does not come to a load is a deadline, and the load may be repeated",
          "[faults][load]") {
  const ProcessRun run;
  ProcessEngines engines({2, 2});
  require_all(engines.create(ProcessRun::config(degrees(2, 2, 1))), "");
  const Bits before = state_of_all(engines);
  const std::vector<Ending> endings = engines.each([&](size_t i) {
    if (i == 0) engines[i].load(run.root(), 300);
  });
  CHECK(endings[0].word == "deadline");
  CHECK(endings[0].error.disposition() == Disposition::kRetry);
  CHECK((state_of_all(engines) == before));
  CHECK(load_all(engines, run.root())["step"] == 2);
}
