// Traces of real steps: the file, the idle share, and what may go wrong with either.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/schedule/schedule.h"
#include "kernels/base/error.h"
#include "tests/support/fault_files.h"
#include "tests/support/local_world.h"
#include "tests/support/memory_files.h"
#include "tests/support/tiny_model.h"

using namespace plait;
using namespace plait::test;
using Json = nlohmann::json;

namespace {

/// An engine whose files are in memory and fail on command.
struct Rig {
  explicit Rig(const Keys& keys = {}) : config(tiny_config(keys)), world(local_world(config)) {
    EngineOptions options;
    options.env = &env;
    options.log = &log;
    options.world = world.get();
    engine = Engine::create(config, options, -1);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) step(*engine, token_batch(rows, 4));
  }
  Json report() { return Json::parse(engine->report("trace")); }
  Json file(const std::string& path) { return Json::parse(memory.at(path).bytes); }

  MemoryFiles memory;
  FaultFiles files{memory};
  Env env = memory_env(files);
  Log log{posix_env().clock};
  Config config;
  std::unique_ptr<World> world;
  std::unique_ptr<Engine> engine;
  std::vector<int32_t> rows = random_rows(4, 17, 61, 1);
};

template <class Body>
Error error_while(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error("invariant", "no error");
}

/// Names of complete events by lane: instructions, which name a stage, and the rest.
struct Lanes {
  std::map<int64_t, std::vector<std::string>> instructions, operations;
};

/// Reads the events and requires that those of a lane lie one in another or apart.
Lanes read_lanes(const Json& trace) {
  Lanes lanes;
  std::map<int64_t, std::vector<double>> open;
  double last = -1;
  int64_t last_lane = -1;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const int64_t lane = event["tid"];
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    REQUIRE(begin >= 0);
    if (lane == last_lane) REQUIRE(begin >= last);
    last = begin, last_lane = lane;
    std::vector<double>& ends = open[lane];
    while (!ends.empty() && ends.back() <= begin + 1e-6) ends.pop_back();
    if (!ends.empty()) REQUIRE(end <= ends.back() + 1e-6);
    ends.push_back(end);
    const bool is_instruction = event["args"].contains("stage");
    if (is_instruction) REQUIRE(ends.size() == 1);
    (is_instruction ? lanes.instructions : lanes.operations)[lane].push_back(event["name"]);
    const std::string name = event["name"];
    const bool is_compute =
        name.rfind("forward", 0) == 0 || name.rfind("backward", 0) == 0 || name == "step";
    REQUIRE(event["cat"] == (is_compute ? "compute" : "communication"));
  }
  return lanes;
}

std::vector<std::string> texts(const InstructionList& list, int times) {
  std::vector<std::string> all;
  for (int i = 0; i < times; ++i) {
    for (const Instruction& instruction : list) all.push_back(instruction_text(instruction));
  }
  return all;
}

}  // namespace

TEST_CASE("a trace of four ranks has their lanes and every instruction", "[trace]") {
  Rig rig({{"layout.tensor", "2"}, {"layout.pipeline", "2"}});
  CHECK(rig.report()["state"] == "none");
  rig.steps(1);
  rig.engine->set("trace.directory", "out");
  rig.engine->set("trace.steps", "2");
  rig.steps(1);
  CHECK(rig.report()["state"] == "on");
  CHECK(rig.memory.names().empty());
  evaluate(*rig.engine, token_batch(rig.rows, 4));  // is not traced
  rig.steps(3);

  CHECK(rig.memory.names() == std::vector<std::string>{"out/trace-0.json"});
  const Json trace = rig.file("out/trace-0.json");
  std::map<int64_t, std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  }
  CHECK(names == std::map<int64_t, std::string>{{0, "rank 0 (tensor 0 pipeline 0 data 0)"},
                                                {1, "rank 1 (tensor 1 pipeline 0 data 0)"},
                                                {2, "rank 2 (tensor 0 pipeline 1 data 0)"},
                                                {3, "rank 3 (tensor 1 pipeline 1 data 0)"}});
  const Schedule schedule = make_schedule({ScheduleKind::kOneForwardOneBackward, 2, 1, 4, 0});
  Lanes lanes = read_lanes(trace);
  for (int64_t rank = 0; rank < 4; ++rank) {
    CHECK(lanes.instructions[rank] == texts(schedule.lists[static_cast<size_t>(rank / 2)], 2));
    const std::vector<std::string>& operations = lanes.operations[rank];
    CHECK(std::count(operations.begin(), operations.end(), "tensor all_reduce") > 0);
    // Four boundary tensors a step, and the swap of the tied embedding.
    CHECK(std::count(operations.begin(), operations.end(), "pipeline receive") == 2 * (4 + 1));
  }
  CHECK(trace["otherData"]["left_out"] == 0);

  const Json report = rig.report();
  CHECK(report["state"] == "done");
  CHECK(report["steps"] == 2);
  CHECK(report["files"] == Json::array({"out/trace-0.json"}));
  CHECK(report["error"].is_null());
  CHECK(report["left_out"] == 0);
  CHECK(report["formula_idle_share"].get<double>() == Approx(1.0 / 5));
  CHECK(report["simulated_idle_share"].get<double>() < 1);
  CHECK(report["idle_share"] > 0);
  CHECK(report["idle_share"] < 1);
  REQUIRE(report["ranks"].size() == 4);
  CHECK(report["ranks"][3]["pipeline"] == 1);
  for (const Json& rank : report["ranks"]) {
    const double busy = rank["busy_seconds"], whole = report["pipeline_seconds"];
    CHECK(rank["idle_share"].get<double>() == Approx(1 - busy / whole));
  }
}

TEST_CASE("every layout has a trace whose events nest", "[trace]") {
  const Keys layout = GENERATE(
      Keys{}, Keys{{"layout.data", "2"}, {"layout.zero", "3"}},
      Keys{{"layout.data", "2"}, {"layout.pipeline", "2"}, {"layout.zero", "2"}},
      Keys{{"layout.tensor", "4"}, {"layout.sequence_parallel", "true"}, {"model.tied", "true"}},
      Keys{{"layout.tensor", "2"}, {"layout.recompute", "full"}, {"layout.data", "2"}},
      Keys{
          {"layout.pipeline", "2"}, {"layout.schedule", "zero_bubble"}, {"model.family", "llama"}});
  Keys keys = layout;
  keys.insert(keys.end(), {{"trace.steps", "1"}, {"trace.directory", "."}});
  Rig rig(keys);
  rig.steps(1);
  const Json trace = rig.file("./trace-0.json");
  const Lanes lanes = read_lanes(trace);
  const Json report = rig.report();
  CHECK(lanes.instructions.size() == report["ranks"].size());
  CHECK(report["state"] == "done");
  CHECK(report["left_out"] == 0);
  CHECK(report["formula_idle_share"].is_number());
  std::map<int64_t, int> halves;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "b") ++halves[event["id"].get<int64_t>()];
    if (event["ph"] == "e") --halves[event["id"].get<int64_t>()];
  }
  for (const auto& [id, open] : halves) CHECK(open == 0);
  if (layout.empty()) {
    CHECK(report["formula_idle_share"] == 0.0);
    CHECK(lanes.operations.empty());
  }
}

TEST_CASE("a step of several calls is one step of the trace", "[trace]") {
  Rig rig({{"layout.pipeline", "2"}, {"trace.steps", "1"}, {"trace.directory", "."}});
  const std::vector<int32_t> half(rig.rows.begin(), rig.rows.begin() + 2 * 17);
  forward_backward(*rig.engine, token_batch(half, 2));
  forward_backward(*rig.engine, token_batch(half, 2));
  CHECK(rig.report()["state"] == "on");
  optimizer_step(*rig.engine);
  CHECK(rig.report()["steps"] == 1);
  CHECK(rig.report()["formula_idle_share"].get<double>() == Approx(1.0 / 3));
  Lanes lanes = read_lanes(rig.file("./trace-0.json"));
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::vector<std::string>& names = lanes.instructions[rank];
    const std::string forward = "forward 1 " + std::to_string(rank);
    CHECK(std::count(names.begin(), names.end(), forward) == 2);
    CHECK(std::count(names.begin(), names.end(), "step") == 1);
  }
}

TEST_CASE("a trace that cannot be made is refused when it is asked for", "[trace]") {
  TestEngine engine(tiny_config());
  engine->set("trace.directory", "/nowhere/at/all");
  const Error gone = error_while([&] { engine->set("trace.steps", "3"); });
  CHECK(gone.word() == "no_file");
  CHECK(gone.message().find("key=trace.directory") != std::string::npos);
  engine->set("trace.directory", "");
  const Error large = error_while([&] { engine->set("trace.steps", "1000000000000"); });
  CHECK(large.word() == "too_large");
  CHECK(large.disposition() == Disposition::kUnchanged);
  CHECK(large.message().find("key=trace.steps") != std::string::npos);
  CHECK(error_while([&] { engine->set("trace.steps", "-1"); }).word() == "argument");
  CHECK(Json::parse(engine->report("trace"))["state"] == "none");
  engine->set("trace.steps", "1");
  const Error late = error_while([&] { engine->set("trace.directory", "/nowhere/at/all"); });
  CHECK(late.word() == "no_file");
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 1);
  CHECK(step(*engine, token_batch(rows, 4)).step == 1);
  const Json report = Json::parse(engine->report("trace"));
  CHECK(report["state"] == "done");
  CHECK(report["files"].empty());
  CHECK(error_while([&] {
          TestEngine(tiny_config({{"trace.steps", "1"}, {"trace.directory", "/nowhere/at/all"}}));
        }).word() == "no_file");
}

TEST_CASE("a file that fails takes no step with it", "[trace]") {
  const auto kind = GENERATE(FileOperation::kCreate, FileOperation::kWrite, FileOperation::kSync,
                             FileOperation::kRename);
  Rig rig;
  rig.engine->set("trace.directory", "out");
  rig.engine->set("trace.steps", "2");
  rig.steps(1);
  rig.log.drain(100);
  rig.files.fail(kind, rig.files.count(kind), 28);  // ENOSPC
  Metrics metrics;
  const Batch batch = token_batch(rig.rows, 4);
  CHECK(rig.engine->step(&batch, -1, &metrics) == Outcome::kDone);
  CHECK(metrics.step == 2);
  CHECK(rig.memory.names().empty());
  Json report = rig.report();
  CHECK(report["state"] == "done");
  CHECK(report["files"].empty());
  CHECK(report["error"]["word"] == "no_space");
  CHECK(report["error"]["code"] == static_cast<int>(Code::kResourceExhausted));
  CHECK(report["idle_share"].get<double>() == Approx(0.0).margin(0.2));  // gaps between passes
  CHECK(rig.log.drain(100).find("no_space") != std::string::npos);
  rig.engine->set("trace.steps", "1");
  rig.steps(1);
  report = rig.report();
  CHECK(report["error"].is_null());
  CHECK(report["files"].size() == 1);
}

TEST_CASE("a new trace replaces one under way, and 0 drops it", "[trace]") {
  Rig rig({{"trace.steps", "3"}, {"trace.directory", "out"}});
  rig.steps(2);
  rig.engine->set("trace.steps", "2");
  rig.steps(1);
  CHECK(rig.memory.names().empty());
  rig.steps(1);
  CHECK(rig.report()["steps"] == 2);
  REQUIRE(rig.memory.names().size() == 1);
  const Lanes lanes = read_lanes(rig.file("out/trace-0.json"));
  CHECK(lanes.instructions.at(0).size() == 2 * 4 * 2 + 2 * 2);
  rig.memory.unlink("out/trace-0.json");
  rig.engine->set("trace.steps", "2");
  rig.steps(1);
  rig.engine->set("trace.steps", "0");
  rig.steps(2);
  CHECK(rig.report()["state"] == "none");
  CHECK(rig.memory.names().empty());
}
