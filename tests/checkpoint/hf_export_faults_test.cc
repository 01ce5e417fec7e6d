// Every operation of an export fails once, and the process is killed at each.
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "checkpoint/hf_export.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/support/fault_files.h"

namespace plait {
namespace {

class Run {
 public:
  Run() {
    const ModelFacts facts = gpt2_facts();
    source_ = write_model(temp_, "from", facts, model_tensors(facts, "F32"));
    options_.max_shard_bytes = 6000;
  }

  /// The error's word, or "" when the export succeeded.
  std::string attempt(FaultFiles& files) {
    const HfDirectory directory = HfDirectory::open(posix_env().files, source_);
    const TensorSource source = [&](const CheckpointTensor& tensor, float* out) {
      directory.read(tensor.name, Box::whole(tensor.shape), out);
    };
    Env env{files, posix_env().clock, posix_env().entropy};
    try {
      export_hf(env, directory.facts(), source, options_, temp_.path("to"));
      return "";
    } catch (const Error& error) {
      return error.word();
    }
  }

  bool target_is_whole() const {
    const HfDirectory directory = HfDirectory::open(posix_env().files, temp_.path("to"));
    return directory.facts() == gpt2_facts();
  }
  const TempDirectory& temp() const { return temp_; }
  void clean() const {
    for (const std::string& name : temp_.names()) {
      if (name != "from") std::filesystem::remove_all(temp_.path(name));
    }
  }

 private:
  TempDirectory temp_;
  std::string source_;
  HfExportOptions options_;
};

TEST_CASE("an export that fails at any operation leaves neither target nor sibling") {
  Run run;
  FaultFiles clean(posix_env().files);
  REQUIRE(run.attempt(clean).empty());
  REQUIRE(run.target_is_whole());
  run.clean();
  const std::pair<FileOperation, int64_t> expected[] = {{FileOperation::kMakeDirectory, 1},
                                                        {FileOperation::kRename, 1},
                                                        {FileOperation::kSyncDirectory, 2}};
  for (const auto& [kind, count] : expected) CHECK(clean.count(kind) == count);
  CHECK(clean.count(FileOperation::kSync) == clean.count(FileOperation::kCreate));
  CHECK(clean.count(FileOperation::kCreate) >= 5);
  const std::pair<FileOperation, std::pair<int, const char*>> faults[] = {
      {FileOperation::kMakeDirectory, {EACCES, "permission"}},
      {FileOperation::kCreate, {EMFILE, "too_many_files"}},
      {FileOperation::kWrite, {ENOSPC, "no_space"}},
      {FileOperation::kSync, {EIO, "io_error"}},
      {FileOperation::kSyncDirectory, {EIO, "io_error"}},
      {FileOperation::kRename, {EROFS, "read_only"}},
      {FileOperation::kStat, {ESTALE, "root_gone"}},
  };
  for (const auto& [kind, fault] : faults) {
    for (int64_t nth = 0; nth < clean.count(kind); ++nth) {
      INFO(fault.second << " " << nth);
      FaultFiles files(posix_env().files);
      files.fail(kind, nth, fault.first);
      CHECK(run.attempt(files) == fault.second);
      CHECK(run.temp().names() == std::vector<std::string>{"from"});
      run.clean();
    }
  }
}

TEST_CASE("an export killed at any operation leaves no target or a whole one") {
  Run run;
  FaultFiles clean(posix_env().files);
  REQUIRE(run.attempt(clean).empty());
  run.clean();
  bool was_whole = false;
  for (int64_t nth = 0; nth < clean.total(); ++nth) {
    INFO(nth);
    FaultFiles files(posix_env().files);
    files.kill_at(nth, EIO);
    CHECK_FALSE(run.attempt(files).empty());
    if (std::filesystem::exists(run.temp().path("to"))) {
      CHECK(run.target_is_whole());
      was_whole = true;
    }
    for (const std::string& name : run.temp().names()) {
      const bool is_known = name == "from" || name == "to" || name.rfind(".to.tmp-", 0) == 0;
      CHECK(is_known);
    }
    run.clean();
  }
  CHECK(was_whole);  // killed between the rename and the end
}

TEST_CASE("a target that appears during the export is not touched") {
  Run run;
  const TempDirectory& temp = run.temp();
  const HfDirectory directory = HfDirectory::open(posix_env().files, temp.path("from"));
  bool is_made = false;
  const TensorSource source = [&](const CheckpointTensor& tensor, float* out) {
    if (!is_made) temp.write("to/mine", "keep");
    is_made = true;
    directory.read(tensor.name, Box::whole(tensor.shape), out);
  };
  require_error([&] { export_hf(posix_env(), directory.facts(), source, {}, temp.path("to")); },
                "target_exists", {temp.path("to")});
  CHECK(read_text(temp.path("to/mine")) == "keep");
  CHECK(temp.names() == std::vector<std::string>{"from", "to"});
}

}  // namespace
}  // namespace plait
