// Saves of engines in two processes: one step, and one ending for all.
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>

#include "tests/engine/trainer/save_support.h"
#include "tests/faults/process_engines.h"

namespace plait::test {
namespace {

/// Two processes of two ranks each, on files of their own.
class TwoSavers {
 public:
  explicit TwoSavers(const Config& config) : processes_({2, 2}) {
    require_all(each([&](size_t i) {
                  OpenEngine::Options options;
                  options.world = &processes_.world(i);
                  options.env = &files_[i].env();
                  engines_[i] = std::make_unique<OpenEngine>(config, options);
                }),
                "");
  }
  LocalEngine& operator[](size_t i) { return **engines_[i]; }
  SavingFiles& files(size_t i) { return files_[i]; }
  const AsyncOperation& operation(size_t i) { return *operations_[i]; }
  std::vector<Ending> each(const std::function<void(size_t)>& body) {
    return processes_.each(body);
  }
  std::vector<Ending> save(const std::string& root) {
    return each([&](size_t i) { operations_[i] = (*engines_[i])->save(root, 20'000); });
  }
  void step(int64_t count = 1) {
    require_all(each([&](size_t i) { resume_steps(**engines_[i], count); }), "");
  }
  /// Both operations end with this word.
  void require_endings(const std::string& word) {
    for (const auto& operation : operations_) REQUIRE(ending_of(*operation) == word);
  }
  void cancel(size_t i) { operations_[i]->cancel(); }
  void kill(size_t i) {
    engines_[i].reset();
    processes_.kill(i);
  }

 private:
  ProcessEngines processes_;
  std::array<SavingFiles, 2> files_;
  std::array<std::unique_ptr<OpenEngine>, 2> engines_;
  std::array<std::shared_ptr<AsyncOperation>, 2> operations_;
};

Config split_config(const Keys& more = {}) {
  Keys keys = resume_keys({{"layout.tensor", "2"}, {"layout.data", "2"}, {"layout.zero", "1"}});
  keys.insert(keys.end(), more.begin(), more.end());
  return tiny_config(keys);
}

}  // namespace

TEST_CASE("two processes write the bytes that one would", "[save]") {
  const TempDirectory folder;
  const Config config = split_config();
  OpenEngine alone(config);
  resume_steps(*alone, 2);
  save_now(*alone, folder.file("alone"));
  TwoSavers two(config);
  two.step(2);
  require_all(two.save(folder.file("two")), "");
  two.require_endings("");
  CHECK(two.operation(0).result().find("\"sequence\":1") != std::string::npos);
  CHECK(two.operation(1).result().find("\"sequence\":1") != std::string::npos);
  require_equal_steps(folder.file("alone"), folder.file("two"), 2);
  open_step(folder.file("two"), 2);

  // Saves and steps beside one another.
  for (int i = 0; i < 5; ++i) {
    two.step();
    require_all(two.save(folder.file("two")), "");
  }
  require_all(two.each([&](size_t i) { two[i].close(-1); }), "");
  two.require_endings("");
  CHECK(steps_in(folder.file("two")).size() == 6);
  open_step(folder.file("two"), 7);
}

TEST_CASE("what fails in one process fails the save of both, and no more", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  TwoSavers two(split_config());
  for (const size_t failing : {1, 0}) {
    two.files(failing).files().fail(FileOperation::kSyncData, 0, EIO, ".plt");
    require_all(two.save(root), "");
    two.require_endings("io_error");
    CHECK(steps_in(root).empty());
  }
  two.files(0).files().fail(FileOperation::kSync, 0, EIO, "MANIFEST");
  require_all(two.save(root), "");
  two.require_endings("io_error");

  two.files(1).shut();
  require_all(two.save(root), "");
  two.files(1).await_writer();
  two.cancel(1);
  two.files(1).open();
  two.require_endings("cancelled");
  CHECK(steps_in(root).empty());

  two.step();
  require_all(two.save(root), "");
  two.require_endings("");
  open_step(root, 1);
}

TEST_CASE("processes that disagree do not begin to save", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  TwoSavers two(split_config());
  two[1].set_property({"run.note", Property::Type::kInteger, 7, 0, ""});
  for (const Ending& ending : two.save(root)) {
    CHECK(ending.word == "mismatch");
    CHECK(says(ending.error, "properties"));
  }
  two[0].set_property({"run.note", Property::Type::kInteger, 7, 0, ""});
  const auto other = two.each([&](size_t i) { two[i].save(root + std::to_string(i), 20'000); });
  for (const Ending& ending : other) CHECK(ending.word == "mismatch");
  CHECK(steps_in(root + "0").empty());

  two.files(1).files().fail(FileOperation::kStat, 0, ENOENT, "/tmp-");
  for (const Ending& ending : two.save(root)) {
    CHECK(ending.word == "root_not_shared");
    CHECK(ending.error.rank() == 2);
  }
  CHECK(steps_in(root).empty());
  two.files(0).files().fail(FileOperation::kMakeDirectory, 0, EROFS, "/tmp-");
  require_all(two.save(root), "read_only");
  require_all(two.save(root), "");
  two.require_endings("");
}

TEST_CASE("a save that one process cannot end in time ends so in both", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  TwoSavers two(split_config({{"checkpoint.save_timeout_ms", "3000"}}));
  two.files(1).shut();
  require_all(two.save(root), "");
  two.files(1).await_writer();
  two.step();
  CHECK(two.operation(0).wait(20'000));  // it does not wait for the slow one
  CHECK_FALSE(two.operation(1).wait(0));
  two.files(1).open();
  two.require_endings("deadline");
  for (const size_t i : {0, 1}) two[i].set("checkpoint.save_timeout_ms", "60000");
  require_all(two.save(root), "");
  two.require_endings("");
  CHECK(steps_in(root).size() == 1);  // nothing is left of the first
}

TEST_CASE("a lost peer ends saves in flight", "[save]") {
  const TempDirectory folder;
  const std::string root = folder.file("root");
  TwoSavers two(split_config());
  two.files(0).shut();
  require_all(two.save(root), "");
  two.files(0).await_writer();
  const auto begin = std::chrono::steady_clock::now();
  two.kill(1);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  two.files(0).open();
  const std::string word = ending_of(two.operation(0));
  INFO(word);
  CHECK((word == "peer_lost" || word == "aborted"));
  const std::string gone = ending_of(two.operation(1));  // whichever its saver met first
  INFO(gone);
  CHECK((gone == "aborted" || gone == "deadline"));
  CHECK(steps_in(root).empty());
  CHECK_THROWS_AS(two[0].save(root, 20'000), Error);
}

}  // namespace plait::test
