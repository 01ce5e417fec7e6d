// What of a run a manifest says, and which differences a resume takes.
#include "engine/trainer/run_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/engine/trainer/resume_support.h"

using namespace plait;
using namespace plait::test;

namespace {

/// A run, described, and a file of the same run.
struct RunPair {
  explicit RunPair(const Keys& keys = {}) : config(tiny_config(keys)) {
    settings = make_settings(config);
    expected = describe_run(config, settings, {}, nullptr, numerics_text(settings, "avx2"));
    file = expected;
  }
  ResumeDecision compare() const { return compare_runs(file, expected, config, settings); }
  nlohmann::json differences() const {
    const Error error = thrown_by([&] { compare(); });
    CHECK(error.word() == "config_mismatch");
    return nlohmann::json::parse(error.details())["differences"];
  }
  void set_in_file(const std::string& key, const std::string& value) {
    for (auto& [name, text] : file.config) {
      if (name != key) continue;
      text = value;
      return;
    }
    file.config.emplace_back(key, value);
    std::sort(file.config.begin(), file.config.end());
  }

  Config config;
  Settings settings;
  Manifest expected, file;
};

bool is_described(const KeyInfo& info) {
  const std::string_view name = info.name;
  return !name.starts_with("run.") && (info.flags & kKeyLocal) == 0 && !info.has(kTraitSecret);
}

SavedData one_part(uint64_t fingerprint) {
  SavedData data;
  data.order = "x";
  data.order_version = 1;
  data.parts = {{fingerprint, 100, 3, uint64_t{1} << 32, 0}};
  return data;
}

}  // namespace

TEST_CASE("a manifest holds every effective key, sorted, but for the run's own and local ones",
          "[run_state]") {
  const RunPair run(Keys{{"network.token", "secret"}, {"data.train", "a.bin"}, {"threads", "1"}});
  std::set<std::string> found;
  for (const auto& [key, value] : run.file.config) {
    CHECK(run.config.get(key) == value);
    CHECK(is_described(key_info(key)));
    found.insert(key);
  }
  CHECK(std::is_sorted(run.file.config.begin(), run.file.config.end()));
  for (const KeyInfo& info : all_keys()) {
    INFO(info.name);
    const bool has_value = !run.config.get(info.name).empty();
    CHECK((found.count(info.name) == 1) == (is_described(info) && has_value));
  }
  for (const char* key : {"network.token", "data.train", "threads", "run.steps"}) {
    CHECK(found.count(key) == 0);
  }
}

TEST_CASE("a manifest describes tensors, groups, layout and numerics", "[run_state]") {
  const RunPair run({{"precision.compute", "bf16"},
                     {"model.layers", "3"},
                     {"layout.pipeline", "2"},
                     {"optimizer.weight_decay", "0.25"}});
  const Manifest& file = run.file;
  CHECK(std::is_sorted(file.tensors.begin(), file.tensors.end(),
                       [](const SavedTensor& a, const SavedTensor& b) { return a.name < b.name; }));
  REQUIRE(file.find("layers.2.attention.query.weight") >= 0);
  const SavedTensor& matrix =
      file.tensors[static_cast<size_t>(file.find("layers.2.attention.query.weight"))];
  REQUIRE(matrix.states.size() == 3);
  CHECK(matrix.states[0].kind == StateKind::kMaster);
  CHECK(matrix.states[2].kind == StateKind::kMoment2);
  CHECK(matrix.states[0].elements == 32 * 32);
  CHECK(file.groups[static_cast<size_t>(matrix.group)].weight_decay == 0.25);
  const SavedTensor& norm = file.tensors[static_cast<size_t>(file.find("final_norm.weight"))];
  CHECK(file.groups[static_cast<size_t>(norm.group)].weight_decay == 0.0);
  CHECK(file.layout.stage_layers == std::vector<int64_t>{1, 2});
  CHECK(file.format.numerics ==
        "compute=bfloat16\ndevice=cpu\nflush_to_zero=false\nisa=avx2\nkernels=1\nmatmul=native\n"
        "reduction=ordered\nresidual=bfloat16\nrounding=nearest_even\n");
  const RunPair weights(Keys{{"checkpoint.weights_only", "true"}});
  for (const SavedTensor& tensor : weights.file.tensors) {
    REQUIRE(tensor.states.size() == 1);
    CHECK(tensor.states[0].kind == StateKind::kParam);
  }
}

TEST_CASE("every key that asks is refused, then allowed by its name and by its group",
          "[run_state]") {
  int64_t asked = 0;
  for (const KeyInfo& info : all_keys()) {
    if (info.resume != Resume::kAsk || !is_described(info)) continue;
    INFO(info.name);
    ++asked;
    RunPair run;
    run.set_in_file(info.name, "another");
    const nlohmann::json differences = run.differences();
    REQUIRE(differences.size() == 1);
    CHECK(differences[0]["key"] == info.name);
    CHECK(differences[0]["file"] == "another");
    CHECK(differences[0]["run"] == run.config.get(info.name));
    CHECK(differences[0]["resume"] == "ask");
    const std::string name = info.name;
    for (const std::string& allowed : {name, name.substr(0, name.rfind('.'))}) {
      run.settings.checkpoint.allow_change = {allowed};
      const ResumeDecision decision = run.compare();
      REQUIRE(decision.warnings.size() == 1);
      CHECK(decision.warnings[0].find(name) != std::string::npos);
    }
    run.settings.checkpoint.allow_change = {name.substr(0, name.size() - 1)};
    CHECK(run.differences().size() == 1);
  }
  CHECK(asked > 30);
}

TEST_CASE("keys that must stay the same are refused whatever is allowed; free ones never",
          "[run_state]") {
  for (const KeyInfo& info : all_keys()) {
    if (info.resume == Resume::kAsk || !is_described(info)) continue;
    INFO(info.name);
    RunPair run;
    run.set_in_file(info.name, "another");
    run.settings.checkpoint.allow_change = {info.name};
    if (info.resume == Resume::kFree) {
      CHECK(run.compare().warnings.empty());
      continue;
    }
    CHECK(run.differences()[0]["resume"] == "same");
  }
}

TEST_CASE("all differences stand in one error, tensors among them", "[run_state]") {
  RunPair run;
  run.set_in_file("optimizer.lr", "1");
  run.set_in_file("seed", "5");
  run.file.random.algorithm = "other";
  run.file.tensors[0].shape = {1, 2};
  run.file.tensors.back().states.pop_back();
  run.file.tensors[1].name = run.file.tensors[0].name + "0";
  const nlohmann::json differences = run.differences();
  std::vector<std::string> keys;
  for (const nlohmann::json& row : differences) keys.push_back(row["key"]);
  const std::vector<SavedTensor>& tensors = run.expected.tensors;
  CHECK(keys == std::vector<std::string>{"optimizer.lr", "seed", tensors[0].name, tensors[1].name,
                                         tensors.back().name, tensors[0].name + "0", "random"});
  CHECK(differences[2]["file"].get<std::string>().find("[1,2]") == 0);
  CHECK(differences[3]["file"] == "none");
}

TEST_CASE("keys of other libraries: unknown ones warn, missing ones had the default",
          "[run_state]") {
  RunPair run;
  run.set_in_file("later.key", "1");
  REQUIRE(run.compare().warnings.size() == 1);
  CHECK(run.compare().warnings[0].find("later.key") != std::string::npos);
  RunPair older(Keys{{"optimizer.lr", "0.25"}});
  const auto drop = [&](const std::string& key) {
    std::erase_if(older.file.config, [&](const auto& pair) { return pair.first == key; });
  };
  drop("optimizer.beta1");
  CHECK(older.compare().warnings.empty());
  drop("optimizer.lr");
  CHECK(older.differences()[0]["key"] == "optimizer.lr");
}

TEST_CASE("weights serve each other: which state of a file a run takes", "[run_state]") {
  RunPair run;
  const auto set_states = [&](std::vector<std::pair<StateKind, DType>> states) {
    run.file.tensors[0].states.clear();
    for (const auto& [kind, dtype] : states) {
      TensorState state;
      state.kind = kind;
      state.dtype = dtype;
      run.file.tensors[0].states.push_back(state);
    }
  };
  const auto taken = [&](StateKind kind) { return stored_state(run.file, 0, kind); };
  set_states({{StateKind::kParam, DType::kFloat32}});
  CHECK(taken(StateKind::kParam)->kind == StateKind::kParam);
  CHECK(taken(StateKind::kMaster)->kind == StateKind::kParam);
  CHECK(taken(StateKind::kMoment1) == nullptr);
  set_states({{StateKind::kParam, DType::kBFloat16}, {StateKind::kMaster, DType::kFloat32}});
  CHECK(taken(StateKind::kParam)->kind == StateKind::kMaster);
  set_states({{StateKind::kParam, DType::kFloat16}, {StateKind::kMoment1, DType::kBFloat16}});
  CHECK(taken(StateKind::kMaster)->kind == StateKind::kParam);
  CHECK(taken(StateKind::kMoment1) == nullptr);
  set_states({{StateKind::kParam, DType::kInt32}});
  CHECK(taken(StateKind::kMaster) == nullptr);
}

TEST_CASE("training data: parts, order and weights must be those of the file", "[run_state]") {
  const CheckpointConfig none;
  CheckpointConfig data;
  data.allow_change = {"data"};
  const std::vector<std::string> paths = {"/a.bin"};
  CHECK(compare_data(one_part(1), one_part(1), paths, none));
  SavedData moved = one_part(1);
  moved.parts[0].drawn = 7;
  moved.parts[0].credit = -4;
  CHECK(compare_data(one_part(1), moved, paths, none));
  SavedData weighted = one_part(1), reordered = one_part(1), longer = one_part(1);
  weighted.parts[0].weight = 5;
  reordered.order_version = 2;
  longer.parts.push_back(longer.parts[0]);
  for (const SavedData& other : {one_part(2), weighted, reordered, longer, SavedData()}) {
    const Error error = thrown_by([&] { compare_data(one_part(1), other, paths, none); });
    CHECK(error.word() == "dataset_changed");
    CHECK_FALSE(compare_data(one_part(1), other, paths, data));
  }
  CHECK(says(thrown_by([&] { compare_data(one_part(1), one_part(2), paths, none); }), "/a.bin"));
}

TEST_CASE("numerics: a change warns, or is refused", "[run_state]") {
  RunPair run;
  run.file.format.numerics = numerics_text(run.settings, "avx512");
  REQUIRE(run.compare().warnings.size() == 1);
  CHECK(run.compare().warnings[0].find("isa from avx512 to avx2") != std::string::npos);
  run.settings.checkpoint.numerics = NumericsChoice::kStrict;
  const Error error = thrown_by([&] { run.compare(); });
  CHECK(error.word() == "numerics_changed");
  CHECK(nlohmann::json::parse(error.details())["differences"][0]["file"] == "avx512");
}

TEST_CASE("weights alone: the model counts, all else is free", "[run_state]") {
  RunPair run(Keys{{"checkpoint.weights_only", "true"}});
  for (const char* key : {"seed", "optimizer.lr", "optimizer.kind", "train.global_batch",
                          "model.initial_std", "data.shuffle"}) {
    run.set_in_file(key, "another");
  }
  run.file.format.numerics = "x=y\n";
  run.file.random.seed = 3;
  CHECK(run.compare().is_weights_only);
  CHECK(run.compare().warnings.empty());
  run.set_in_file("model.norm_epsilon", "1");
  run.set_in_file("model.sequence_length", "1");
  CHECK(run.differences().size() == 2);
  RunPair whole;
  for (SavedTensor& tensor : whole.file.tensors) tensor.states.resize(1);
  CHECK(thrown_by([&] { whole.compare(); }).word() == "weights_only");
}
