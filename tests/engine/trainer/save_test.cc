// Saves of engines whose ranks are all in this process: what the files hold, and how a save ends.
#include <cerrno>
#include <chrono>
#include <limits>

#include "tests/engine/trainer/save_support.h"

namespace plait::test {
namespace {

/// An engine on files that fail or wait.
OpenEngine::Options on(SavingFiles& files) {
  OpenEngine::Options options;
  options.env = &files.env();
  return options;
}

void overwrite_all(Engine& engine) {
  for (const std::string& name : tensor_names(engine)) {
    std::vector<float> values = read(engine, name, TensorKind::kParam);
    for (float& value : values) value = 1.0f - value;
    write(engine, name, values);
  }
}

}  // namespace

TEST_CASE("A8: files hold the values at the call, whatever comes next, in every layout", "[save]") {
  const std::vector<Keys> layouts = {
      {},
      {{"layout.tensor", "2"}, {"layout.data", "2"}, {"precision.compute", "bf16"}},
      {{"layout.pipeline", "2"}, {"layout.data", "2"}, {"layout.zero", "3"}},
      {{"layout.data", "4"}, {"layout.zero", "1"}, {"precision.compute", "bf16"}}};
  for (const Keys& keys : layouts) {
    const Config config = tiny_config(resume_keys(keys));
    const std::string compute = config.get("precision.compute");
    const TempDirectory folder;
    const std::string root = folder.file("root");
    SavingFiles files;
    OpenEngine engine(config, on(files));
    resume_steps(*engine, 2);
    const std::vector<uint32_t> before = state_bits(*engine);
    files.shut();
    const auto operation = engine->save(root, -1);
    overwrite_all(*engine);
    resume_steps(*engine, 1);
    CHECK(operation->progress().state == AsyncOperation::State::kRunning);
    files.open();
    CHECK(ending_of(*operation) == "");
    CHECK(bool(state_bits(*engine) != before));

    const auto reader = open_step(root, 2);
    CHECK(bool(step_bits(*reader, compute) == before));  // no expansion: it is long
    const Manifest& manifest = reader->manifest();
    CHECK(manifest.progress.step == 2);
    CHECK(manifest.progress.updates == 2);
    CHECK(manifest.progress.samples == 8);
    const auto progress = operation->progress();
    CHECK(progress.state == AsyncOperation::State::kDone);
    CHECK(progress.done_bytes == progress.total_bytes);
    CHECK(operation->result().find("\"sequence\":1") != std::string::npos);
    CHECK(operation->result().find(step_path(root, 2)) != std::string::npos);
    CHECK(parse_step_name(steps_in(root)[0]) == 2);
    CHECK(steps_in(root).size() == 1);
    CHECK(engine->counter("saves") == 1);
  }
}

TEST_CASE("two saves of one state are equal in every byte, staged or not", "[save]") {
  const TempDirectory folder;
  OpenEngine engine(tiny_config(
      resume_keys({{"layout.pipeline", "2"}, {"layout.data", "2"}, {"layout.zero", "1"}})));
  engine->set_property({"run.note", Property::Type::kText, 0, 0, "zwölf"});
  resume_steps(*engine, 1);
  save_now(*engine, folder.file("a"));
  save_now(*engine, folder.file("b"));
  require_equal_steps(folder.file("a"), folder.file("b"), 1);
  const auto reader = open_step(folder.file("a"), 1);
  REQUIRE(reader->manifest().properties.size() == 1);
  CHECK(reader->manifest().properties[0].text == "zwölf");

  // Without staging the call itself writes; only the configuration tells.
  engine->set("checkpoint.max_staged", "0");
  const auto operation = engine->save(folder.file("c"), -1);
  CHECK(operation->wait(0));
  CHECK(ending_of(*operation) == "");
  for (const char* name :
       {"/s00000.plt", "/s00001.plt", "/s00002.plt", "/s00003.plt", "/s00000.idx", "/s00003.idx"}) {
    CHECK(bool(bytes_of(step_path(folder.file("a"), 1) + name) ==
               bytes_of(step_path(folder.file("c"), 1) + name)));
  }
}

TEST_CASE("weights alone are saved without moments", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  OpenEngine engine(tiny_config({{"checkpoint.weights_only", "true"}, {"layout.data", "2"}}));
  resume_steps(*engine, 1);
  save_now(*engine, root);
  const auto reader = open_step(root, 1);
  for (const SavedTensor& tensor : reader->manifest().tensors) {
    REQUIRE(tensor.states.size() == 1);
    CHECK(tensor.states[0].kind == StateKind::kParam);
  }
}

TEST_CASE("S11: a step is saved once, unless it may be replaced", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  SavingFiles files;
  OpenEngine engine(tiny_config(), on(files));
  resume_steps(*engine, 1);
  files.shut();
  const auto first = engine->save(root, -1);
  CHECK(thrown_by([&] { engine->save(root, -1); }).word() == "step_exists");  // not yet in the root
  files.open();
  CHECK(ending_of(*first) == "");
  const std::string manifest = bytes_of(step_path(root, 1) + "/MANIFEST");
  const Error error = thrown_by([&] { engine->save(root, -1); });
  CHECK(error.word() == "step_exists");
  CHECK(error.disposition() == Disposition::kUnchanged);
  CHECK(bool(bytes_of(step_path(root, 1) + "/MANIFEST") == manifest));
  engine->set("checkpoint.on_existing", "replace");
  CHECK(save_now(*engine, root).find("\"sequence\":2") != std::string::npos);
  open_step(root, 1);
  CHECK(steps_in(root).size() == 1);
}

TEST_CASE("S9: where max_staged saves are under way, on_busy decides", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  SavingFiles files;
  OpenEngine engine(tiny_config({{"checkpoint.max_staged", "1"}}), on(files));
  files.shut();
  const auto first = engine->save(root, -1);
  files.await_writer();
  resume_steps(*engine, 1);

  engine->set("checkpoint.on_busy", "error");
  CHECK(thrown_by([&] { engine->save(root, -1); }).word() == "save_pending");
  engine->set("checkpoint.on_busy", "skip");
  const auto skipped = engine->save(root, -1);
  CHECK(skipped->wait(0));
  CHECK(skipped->result().find("\"skipped\":true") != std::string::npos);
  CHECK(engine->counter("saves_skipped") == 1);

  engine->set("checkpoint.on_busy", "wait");
  CHECK(thrown_by([&] { engine->save(root, 100); }).word() == "deadline");
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    files.open();
  });
  const auto second = engine->save(root, -1);
  opener.join();
  CHECK(first->wait(0));
  CHECK(ending_of(*first) == "");
  CHECK(ending_of(*second) == "");
  CHECK(steps_in(root).size() == 2);
  CHECK(engine->counter("saves") == 2);
}

TEST_CASE("saves are committed in the order of their calls", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  OpenEngine engine(tiny_config({{"layout.data", "2"}, {"checkpoint.max_staged", "3"}}));
  std::vector<std::shared_ptr<AsyncOperation>> operations;
  const int64_t count = 12;
  for (int64_t i = 0; i < count; ++i) {
    resume_step(*engine);
    operations.push_back(engine->save(root, -1));
  }
  for (const auto& operation : operations) CHECK(ending_of(*operation) == "");
  const RootListing listing = list_root(posix_env().files, root);
  REQUIRE(listing.steps.size() == static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const StepEntry& entry = listing.steps[static_cast<size_t>(i)];  // newest first
    CHECK(entry.step == count - i);
    CHECK(entry.sequence == static_cast<uint64_t>(count - i));
  }
}

TEST_CASE("a cancelled save leaves nothing, and loses against the commit", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  SavingFiles files;
  OpenEngine engine(tiny_config(), on(files));
  files.shut();
  const auto operation = engine->save(root, -1);
  files.await_writer();
  operation->cancel();
  files.open();
  CHECK(ending_of(*operation) == "cancelled");
  CHECK(operation->progress().state == AsyncOperation::State::kCancelled);
  CHECK(steps_in(root).empty());
  const auto later = engine->save(root, -1);
  CHECK(ending_of(*later) == "");
  later->cancel();
  CHECK(ending_of(*later) == "");
  open_step(root, 0);
}

TEST_CASE("S9: a save past its deadline is abandoned", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  SavingFiles files;
  OpenEngine engine(tiny_config({{"checkpoint.save_timeout_ms", "300"}}), on(files));
  files.shut();
  const auto operation = engine->save(root, -1);
  files.await_writer();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  resume_steps(*engine, 1);
  files.open();
  CHECK(ending_of(*operation) == "deadline");
  engine->set("checkpoint.save_timeout_ms", "60000");
  save_now(*engine, root);
  CHECK(steps_in(root).size() == 1);
}

TEST_CASE("A7: close waits for saves, or abandons them at its deadline", "[save]") {
  const TempDirectory folder;
  {
    OpenEngine engine(tiny_config({{"layout.data", "2"}}));
    const auto operation = engine->save(folder.file("done"), -1);
    engine->close(-1);
    CHECK(operation->wait(0));
    CHECK(ending_of(*operation) == "");
    open_step(folder.file("done"), 0);
    CHECK(thrown_by([&] { engine->save(folder.file("done"), -1); }).word() == "closed");
    // The root is free for another engine, though the first still lives.
    OpenEngine next(tiny_config({{"layout.data", "2"}}));
    resume_step(*next);
    save_now(*next, folder.file("done"));
  }
  SavingFiles files;
  const std::string root = folder.file("late");
  std::shared_ptr<AsyncOperation> operation;
  {
    OpenEngine engine(tiny_config(), on(files));
    files.shut();
    operation = engine->save(root, -1);
    files.await_writer();
    const auto begin = std::chrono::steady_clock::now();
    engine->close(200);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
    files.open();
  }
  CHECK(operation->wait(0));
  CHECK(ending_of(*operation) == "deadline");
  CHECK(steps_in(root).empty());
}

TEST_CASE("an engine that is freed gives up its saves and its lock", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  SavingFiles files;
  std::shared_ptr<AsyncOperation> operation;
  {
    OpenEngine engine(tiny_config(), on(files));
    files.shut();
    operation = engine->save(root, -1);
    files.await_writer();
    engine->abort();
    files.open();
  }
  CHECK(ending_of(*operation) == "aborted");
  CHECK(steps_in(root).empty());
  OpenEngine engine(tiny_config());
  save_now(*engine, root);
}

TEST_CASE("S10: two engines do not write into one root", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  OpenEngine first(tiny_config()), second(tiny_config());
  save_now(*first, root);
  resume_step(*second);
  const Error error = thrown_by([&] { second->save(root, -1); });
  CHECK(error.word() == "locked");
  CHECK(says(error, "pid"));
  save_now(*second, folder.file("other"));  // nothing of it clings to the engine
  first->close(-1);
  save_now(*second, root);
}

TEST_CASE("saves happen between steps alone", "[save]") {
  const TempDirectory folder;
  OpenEngine engine(tiny_config());
  const auto rows = random_rows(4, 17, 61, 3);
  forward_backward(*engine, token_batch(rows, 4));
  CHECK(thrown_by([&] { engine->save(folder.file("root"), -1); }).word() == "mid_step");
  CHECK(steps_in(folder.file("root")).empty());
  optimizer_step(*engine);
  save_now(*engine, folder.file("root"));
}

TEST_CASE("weights that are not the rounded masters are not saved", "[save]") {
  const TempDirectory folder;
  OpenEngine engine(tiny_config({{"precision.compute", "bf16"}}));
  const TensorPlace& place = engine.rank(0).places(0)[0];
  engine.rank(0).optimizer().weights(place.chunk, place.unit).as<BFloat16>()[0].bits ^= 1u;
  const Error error = thrown_by([&] { engine->save(folder.file("root"), -1); });
  CHECK(error.word() == "invariant");
  CHECK(says(error, "embedding.token.weight"));
  CHECK(steps_in(folder.file("root")).empty());
}

TEST_CASE("S3, S4, S5: a save that fails ends with its error, and training goes on", "[save]") {
  struct Case {
    FileOperation operation;
    int number;
    const char* part;
    const char* word;
  };
  for (const Case& one : {Case{FileOperation::kWrite, ENOSPC, ".plt", "no_space"},
                          Case{FileOperation::kAllocate, ENOSPC, ".plt", "no_space"},
                          Case{FileOperation::kSyncData, EIO, ".plt", "io_error"},
                          Case{FileOperation::kClose, EIO, ".plt", "io_error"},
                          Case{FileOperation::kCreate, EMFILE, ".idx", "too_many_files"},
                          Case{FileOperation::kWrite, EDQUOT, "MANIFEST", "quota"},
                          Case{FileOperation::kSync, EIO, "MANIFEST", "io_error"},
                          Case{FileOperation::kRename, EACCES, "step-", "permission"}}) {
    INFO(one.part << " " << one.number);
    const TempDirectory folder;
    const std::string root = folder.file("root");
    SavingFiles files;
    OpenEngine engine(tiny_config({{"layout.data", "2"}, {"layout.zero", "1"}}), on(files));
    save_now(*engine, root);
    resume_step(*engine);
    files.files().fail(one.operation, 0, one.number, one.part);
    const auto operation = engine->save(root, -1);
    CHECK(ending_of(*operation) == one.word);
    CHECK(engine->counter("saves_failed") == 1);
    CHECK(engine->state() == EngineState::kReady);
    CHECK(steps_in(root).size() == 1);  // the one before, nothing partial
    resume_step(*engine);
    CHECK(save_now(*engine, root).find("\"sequence\":2") != std::string::npos);
    open_step(root, 0);
    open_step(root, 2);
    CHECK(files.files().syncs_of_dead_files() == 0);
  }
  // What fails before the snapshot is an error of the call.
  SavingFiles files;
  OpenEngine engine(tiny_config(), on(files));
  const TempDirectory folder;
  files.files().fail(FileOperation::kMakeDirectory, 0, EROFS, "root");
  CHECK(thrown_by([&] { engine->save(folder.file("root"), -1); }).word() == "read_only");
  save_now(*engine, folder.file("root"));
}

TEST_CASE("old steps go, but none while updates are skipped", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  OpenEngine engine(tiny_config({{"checkpoint.keep_last", "2"}, {"train.on_nonfinite", "skip"}}));
  for (int step = 0; step < 4; ++step) {
    resume_step(*engine);
    save_now(*engine, root);
  }
  CHECK(steps_in(root).size() == 2);
  std::vector<float> norm = read(*engine, "final_norm.weight", TensorKind::kParam);
  const std::vector<float> good = norm;
  norm[3] = std::numeric_limits<float>::quiet_NaN();
  write(*engine, "final_norm.weight", norm);
  for (int step = 0; step < 2; ++step) {
    CHECK(resume_step(*engine).skipped == step + 1);
    save_now(*engine, root);
  }
  CHECK(steps_in(root).size() == 4);
  write(*engine, "final_norm.weight", good);
  resume_step(*engine);
  save_now(*engine, root);
  CHECK(steps_in(root).size() == 2);
}

}  // namespace plait::test
