// A resumed run is the uninterrupted one, bit for bit; and what a load into another layout holds.
#include "tests/engine/trainer/resume_support.h"

#include <nlohmann/json.hpp>

#include "engine/data/sampler.h"
#include "tests/support/sanitized.h"

using namespace plait;
using namespace plait::test;

namespace {

const Keys kBf16 = {{"precision.compute", "bf16"}};

Keys joined(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// A run with checkpoints of some steps, and what it showed.
struct Recorded {
  std::vector<StepRecord> records;                               // of all steps
  std::vector<std::pair<int64_t, std::vector<uint32_t>>> saved;  // step and state
  std::vector<uint32_t> end;
};

struct RunPlan {
  Config config;
  std::vector<int64_t> saves;
  int64_t steps = 6;
  std::shared_ptr<const Dataset> dataset = {};
};

Recorded record(const RunPlan& plan, const std::string& root) {
  TestEngine engine(plan.config);
  if (plan.dataset != nullptr) engine->attach_dataset("train", plan.dataset, -1);
  Recorded run;
  for (int64_t step = 1; step <= plan.steps; ++step) {
    run.records.push_back(resume_step(*engine, plan.dataset != nullptr));
    if (std::find(plan.saves.begin(), plan.saves.end(), step) == plan.saves.end()) continue;
    save_now(*engine, root);
    run.saved.emplace_back(step, state_bits(*engine));
  }
  run.end = state_bits(*engine);
  return run;
}

/// Resumes every save of the run in a new engine and goes to its end.
void check_resumes(const RunPlan& plan, const Recorded& run, const std::string& root) {
  for (const auto& [step, state] : run.saved) {
    INFO("resumed at step " << step);
    TestEngine engine(plan.config);
    if (plan.dataset != nullptr) engine->attach_dataset("train", plan.dataset, -1);
    engine->load(step_path(root, step), -1);
    CHECK((state_bits(*engine) == state));
    CHECK(engine->counter("steps") == static_cast<double>(step));
    const std::vector<StepRecord> rest =
        resume_steps(*engine, plan.steps - step, plan.dataset != nullptr);
    CHECK((rest == std::vector<StepRecord>(run.records.begin() + step, run.records.end())));
    CHECK((state_bits(*engine) == run.end));
  }
}

std::vector<Keys> same_layouts() {
  const Keys llama = {
      {"model.family", "llama"}, {"model.key_value_heads", "2"}, {"model.feed_forward", "56"}};
  const std::vector<Keys> all = {
      {},
      kBf16,
      joined(llama, {{"layout.tensor", "2"}, {"layout.sequence_parallel", "true"}}),
      joined(kBf16, {{"layout.data", "2"}, {"layout.zero", "3"}}),
      {{"layout.data", "2"}, {"layout.zero", "1"}, {"model.vocab_size", "67"}},
      joined(kBf16, {{"layout.pipeline", "2"}, {"layout.data", "2"}, {"layout.zero", "2"}}),
      {{"layout.data", "2"}, {"layout.tensor", "2"}},
      joined(kBf16, {{"layout.pipeline", "2"}, {"layout.interleave", "2"}, {"model.layers", "4"}}),
  };
  return kIsSanitized ? std::vector<Keys>(all.begin(), all.begin() + 4) : all;
}

std::shared_ptr<const Dataset> two_sets(const TempDirectory& folder,
                                        int64_t first_ids = 8 * 16 + 1) {
  const auto write_ids = [&](const char* name, int64_t count, uint64_t seed) {
    const std::vector<int32_t> ids = random_rows(1, count, 61, seed);
    write_text(folder.file(name), pack<uint16_t>(std::vector<int64_t>(ids.begin(), ids.end())));
  };
  write_ids("a", first_ids, 1);
  write_ids("b", 5 * 16 + 1, 2);
  DataOptions options;
  options.paths = {folder.file("a"), folder.file("b")};
  options.weights = {0.7, 0.3};
  options.sequence_length = 16;
  options.vocab_size = 61;
  return Dataset::open(posix_env().files, options);
}

}  // namespace

TEST_CASE("S4, C5, C11: a run resumed at any save is the uninterrupted one, in its layout",
          "[resume]") {
  for (const Keys& layout : same_layouts()) {
    INFO(tiny_config(layout).dump_json(false));
    const TempDirectory folder;
    const RunPlan plan{tiny_config(resume_keys(layout)), {1, 3}};
    const Recorded run = record(plan, folder.file("root"));
    check_resumes(plan, run, folder.file("root"));
  }
}

TEST_CASE("C6: the later checkpoints of a resumed and an uninterrupted run are the same bytes",
          "[resume]") {
  constexpr size_t kTrailer = 40;
  const TempDirectory folder;
  const RunPlan plan{tiny_config(resume_keys(joined(kBf16, {{"layout.data", "2"}}))), {2, 5}, 5};
  record(plan, folder.file("whole"));
  TestEngine engine(plan.config);
  engine->load(step_path(folder.file("whole"), 2), -1);
  resume_steps(*engine, 3);
  save_now(*engine, folder.file("resumed"));
  const std::string a = step_path(folder.file("whole"), 5),
                    b = step_path(folder.file("resumed"), 5);
  for (const char* name : {"/s00000.plt", "/s00000.idx", "/s00001.plt", "/s00001.idx"}) {
    INFO(name);
    CHECK((bytes_of(a + name) == bytes_of(b + name)));
  }
  const std::string of_a = bytes_of(a + "/MANIFEST"), of_b = bytes_of(b + "/MANIFEST");
  REQUIRE(of_a.size() == of_b.size());
  CHECK((of_a.substr(0, of_a.size() - kTrailer) == of_b.substr(0, of_b.size() - kTrailer)));
}

TEST_CASE("a resumed run reads on where the other stopped, also at the edge of an epoch",
          "[resume]") {
  // Set a has 8 samples and b has 5: within 7 steps of 4 both begin new epochs, mid-step and at
  // the end of one.
  const TempDirectory folder;
  const RunPlan plan{tiny_config(resume_keys()), {1, 2, 3, 4, 5, 6}, 7, two_sets(folder)};
  const Recorded run = record(plan, folder.file("root"));
  check_resumes(plan, run, folder.file("root"));
  // The dataset may come after the load.
  TestEngine engine(plan.config);
  engine->load(folder.file("root"), -1);
  engine->attach_dataset("train", two_sets(folder), -1);
  CHECK(resume_step(*engine, true) == run.records[6]);
  CHECK((state_bits(*engine) == run.end));
}

TEST_CASE("D4: other training data is refused before and after the load, unless data may change",
          "[resume]") {
  const TempDirectory folder, other;
  const RunPlan plan{tiny_config(), {1}, 1, two_sets(folder)};
  record(plan, folder.file("root"));
  const std::shared_ptr<const Dataset> changed = two_sets(other, 8 * 16 + 2);
  {
    TestEngine engine(plan.config);
    engine->attach_dataset("train", changed, -1);
    const std::vector<uint32_t> before = state_bits(*engine);
    const Error error = thrown_by([&] { engine->load(folder.file("root"), -1); });
    CHECK(error.word() == "dataset_changed");
    CHECK(says(error, "fingerprint:" + std::to_string(changed->set(0).fingerprint())));
    CHECK(says(error, "fingerprint:" + std::to_string(plan.dataset->set(0).fingerprint())));
    CHECK((state_bits(*engine) == before));
    engine->set("checkpoint.allow_change", R"(["data"])");
    engine->load(folder.file("root"), -1);
    CHECK(resume_step(*engine, true).step == 2);
  }
  TestEngine engine(plan.config);
  engine->load(folder.file("root"), -1);
  const Error error = thrown_by([&] { engine->attach_dataset("train", changed, -1); });
  CHECK(error.word() == "dataset_changed");
  CHECK(says(error, other.file("a")));
  engine->attach_dataset("train", two_sets(folder), -1);
  CHECK(resume_step(*engine, true).step == 2);
}

TEST_CASE("N2 of faults: a loss scale resumes in the middle of its back-off", "[resume]") {
  const TempDirectory folder;
  const RunPlan plan{tiny_config(resume_keys({{"precision.compute", "fp16"},
                                              {"precision.loss_scale_start", "4294967296"},
                                              {"precision.loss_scale_max", "4294967296"},
                                              {"precision.loss_scale_window", "3"}})),
                     {1, 2, 5, 17, 20},
                     24};
  const Recorded run = record(plan, folder.file("root"));
  CHECK(run.records[0].skipped == 1);
  CHECK(run.records[1].loss_scale == 4294967296.0);
  CHECK(run.records[3].loss_scale < 4294967296.0);
  CHECK(run.records[23].skipped < 24);  // it has come down to where gradients fit
  check_resumes(plan, run, folder.file("root"));
}

TEST_CASE("S5: a resumed run goes on inside its batch ramp", "[resume]") {
  const TempDirectory folder;
  const RunPlan plan{
      tiny_config(resume_keys({{"train.global_batch", "16"}, {"train.batch_ramp", "[4,4,8]"}})),
      {1, 3, 5},
      7};
  const Recorded run = record(plan, folder.file("root"));
  CHECK(run.records[6].samples > 7 * 4);
  check_resumes(plan, run, folder.file("root"));
}

TEST_CASE("C1, C3, C13: any layout loads into any other; what changes no rounding goes on the same",
          "[resume]") {
  const TempDirectory folder;
  const Keys base = resume_keys({{"model.layers", "4"},
                                 {"model.vocab_size", "67"},
                                 {"train.global_batch", "8"},
                                 {"precision.compute", "bf16"}});
  const auto with = [&](const Keys& layout) { return tiny_config(joined(base, layout)); };
  const RunPlan plan{with({{"layout.pipeline", "2"}, {"layout.data", "2"}}), {2}, 4};
  const Recorded run = record(plan, folder.file("root"));
  struct Case {
    Keys layout;
    bool is_exact = false;
  };
  std::vector<Case> cases = {
      {{{"layout.pipeline", "4"}, {"layout.data", "2"}, {"layout.zero", "1"}}, true},
      {{{"layout.tensor", "2"}, {"layout.data", "2"}, {"layout.zero", "3"}}},
      {{{"layout.data", "2"}, {"layout.recompute", "full"}}, true},
      {{{"layout.tensor", "4"}, {"layout.sequence_parallel", "true"}}},
      {{{"layout.pipeline", "2"}, {"layout.interleave", "2"}, {"layout.data", "2"}}, true},
      {{{"layout.pipeline", "2"},
        {"layout.stage_layers", "[1,3]"},
        {"layout.data", "4"},
        {"layout.zero", "2"}}},
      {{{"layout.pipeline", "2"}, {"layout.data", "2"}, {"layout.schedule", "gpipe"}}, true},
      {{}},
  };
  if (kIsSanitized) cases.resize(4);
  for (const Case& one : cases) {
    const Config config = with(one.layout);
    INFO(config.dump_json(false));
    TestEngine engine(config);
    engine->load(folder.file("root"), -1);
    CHECK((state_bits(*engine) == run.saved[0].second));
    // There and back again: the same bytes as at first.
    save_now(*engine, folder.file("there"));
    TestEngine back(plan.config);
    back->load(folder.file("there"), -1);
    save_now(*back, folder.file("back"));
    CHECK((bytes_of(step_path(folder.file("back"), 2) + "/s00001.plt") ==
           bytes_of(step_path(folder.file("root"), 2) + "/s00001.plt")));
    for (const char* name : {"there", "back"}) std::filesystem::remove_all(folder.file(name));
    const std::vector<StepRecord> rest = resume_steps(*engine, 2);
    if (!one.is_exact) continue;
    CHECK((rest == std::vector<StepRecord>(run.records.begin() + 2, run.records.end())));
    CHECK((state_bits(*engine) == run.end));
  }
}

TEST_CASE("a resumed run differs from a cold start; properties and counters come back",
          "[resume]") {
  const TempDirectory folder;
  const Config config = tiny_config(resume_keys());
  TestEngine first(config);
  resume_steps(*first, 3);
  Property property;
  property.name = "host.note";
  property.type = Property::Type::kText;
  property.text = "a\xf0\x9f\x98\x80z";
  first->set_property(property);
  property = {"host.zero", Property::Type::kReal, 0, -0.0, ""};
  first->set_property(property);
  save_now(*first, folder.file("root"));
  TestEngine resumed(config), cold(config);
  const nlohmann::json report = loaded(*resumed, folder.file("root"));
  CHECK(report["step"] == 3);
  CHECK(report["format"] == "plait");
  CHECK(report["weights_only"] == false);
  CHECK(report["skipped"].empty());
  CHECK(resumed->report("properties") == first->report("properties"));
  for (const char* counter : {"steps", "samples", "tokens", "skipped"}) {
    CHECK(resumed->counter(counter) == first->counter(counter));
  }
  CHECK((state_bits(*resumed) != state_bits(*cold)));
  const StepRecord next = resume_step(*resumed);
  CHECK(next == resume_step(*first));
  CHECK(!(next == resume_step(*cold)));
}

TEST_CASE("precision may change where it is allowed: masters serve weights and weights masters",
          "[resume]") {
  const TempDirectory folder;
  const std::vector<std::string> types = {"fp32", "bf16"};
  for (size_t from = 0; from < 2; ++from) {
    TestEngine first(tiny_config({{"precision.compute", types[from]}}));
    resume_steps(*first, 2);
    const std::string root = folder.file(types[from]);
    save_now(*first, root);
    TestEngine other(tiny_config({{"precision.compute", types[1 - from]},
                                  {"checkpoint.allow_change", R"(["precision.compute"])"}}));
    const nlohmann::json report = loaded(*other, root);
    CHECK(report["warnings"].size() == 2);  // the key and the numerics
    for (const TensorKind kind : {TensorKind::kMaster, TensorKind::kMoment1}) {
      CHECK((read_all(*other, kind) == read_all(*first, kind)));
    }
    CHECK(resume_step(*other).step == 3);
  }
}
