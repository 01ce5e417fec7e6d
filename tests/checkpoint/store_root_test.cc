// Roots: names, their lock, the order of steps, commits.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "checkpoint/store/root_files.h"
#include "checkpoint/store/step_reader.h"
#include "kernels/base/net.h"
#include "tests/checkpoint/store_root_sim.h"
#include "tests/support/fault_files.h"

namespace plait {
namespace {

using Catch::Matchers::Contains;
using test::caught;
using test::field_of;
using test::kRootPath;
using test::Names;
using test::other_names;
using test::save_step;
using test::SimRoot;

TEST_CASE("names of steps have twelve digits, and others are none") {
  CHECK(step_name(1000) == "step-000000001000");
  CHECK(step_name(999'999'999'999) == "step-999999999999");
  CHECK(caught([] { step_name(1'000'000'000'000); }).word() == "too_large");
  CHECK(parse_step_name("step-000000001000") == 1000);
  for (const char* other :
       {"step-1000", "step-0000000001000", "step-00000000100x", "step-+00000001000",
        "Step-000000001000", "step-000000001000 ", "tmp-000000001000-0123456789abcdef", ""}) {
    CHECK_FALSE(parse_step_name(other));
  }
}

TEST_CASE("only names that a writer gives are leftovers") {
  CHECK(leftover_name(Leftover::kTemporary, 5, 0xABC) == "tmp-000000000005-0000000000000abc");
  CHECK(leftover_name(Leftover::kTrash, 5, ~uint64_t{0}) == "trash-000000000005-ffffffffffffffff");
  CHECK(trash_name("step-000000000007", 1) == "trash-000000000007-0000000000000001");
  CHECK(trash_name("tmp-000000000005-0000000000000abc", 1) ==
        "trash-000000000005-0000000000000abc");
  CHECK(is_leftover_name("tmp-000000000005-0000000000000abc"));
  CHECK(is_leftover_name("trash-000000000005-0000000000000abc"));
  for (const char* other :
       {"tmp-5-0000000000000abc", "tmp-000000000005-abc", "tmp-000000000005-0000000000000ABC",
        "tmp-000000000005_0000000000000abc", "tmp-", "trash", "tmp-000000000005-0000000000000abc~",
        "step-000000000005"}) {
    CHECK_FALSE(is_leftover_name(other));
  }
}

TEST_CASE("LATEST is one line that proves itself") {
  const std::string before = "plait-latest-1 step-000000001000 ";
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(before.data(), before.size())));
  const std::string text = before + hash + "\n";
  CHECK(latest_text(1000) == text);
  CHECK(parse_latest(text) == 1000);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    CHECK_FALSE(parse_latest(damaged));
    CHECK_FALSE(parse_latest(text.substr(0, i)));
  }
  CHECK_FALSE(parse_latest(text + "\n"));
}

TEST_CASE("one writer at a time holds a root, and says who it is") {
  SimRoot root;
  const Error locked = caught([&] { RootWriter::open(root.env, kRootPath, "other", nullptr, 0); });
  CHECK(locked.word() == "locked");
  CHECK_THAT(field_of(locked, "holder"),
             Contains("run run-7, host " + posix_net().host_name() + ", pid " +
                      std::to_string(posix_net().process_id()) + ", since 20"));
  CHECK_THAT(root.read("LOCK"), Catch::Matchers::EndsWith("Z\n"));
  // A holder that died has left its text, a longer one, and no lock.
  root.writer.reset();
  std::string dead = "run ";
  dead.append(100, 'x') += ", host elsewhere, pid 1, since 2020\n";
  root.write("LOCK", dead);
  root.open();
  const std::string text = root.read("LOCK");
  CHECK_THAT(text, Contains("run run-7") && !Contains("xxx") && !Contains("elsewhere"));
  CHECK(text.find('\n') == text.size() - 1);
}

TEST_CASE("a root is made in its parent, and nothing else than a directory is one") {
  SimFiles files;
  Env env = test::env_of(files);
  CHECK(caught([&] { RootWriter::open(env, "/no/such", "r", nullptr, 0); }).word() == "no_file");
  files.create("/file", true);
  CHECK(caught([&] { RootWriter::open(env, "/file", "r", nullptr, 0); }).word() == "argument");
  CHECK(caught([&] { list_root(files, "/file"); }).word() == "no_checkpoint");
  CHECK(caught([&] { list_root(files, "/none"); }).word() == "no_checkpoint");
  CHECK(RootWriter::open(env, "/new/", "r", nullptr, 0)->path() == "/new/");
  CHECK(files.exists("/new/LOCK"));
  CHECK(list_root(files, "/new").steps.empty());
}

TEST_CASE("the newest step is the one saved last, not the highest") {
  SimRoot root;
  CHECK(root.save(10) == root.in("step-000000000010"));
  root.save(20);
  root.save(15);
  CHECK(root.steps() == std::vector<int64_t>{15, 20, 10});
  CHECK(root.sequences() == std::vector<uint64_t>{3, 2, 1});
  CHECK(root.faults().empty());
  CHECK(root.read("LATEST") == latest_text(15));
  // Another process goes on after the highest that is right.
  std::string manifest = root.read("step-000000000015/MANIFEST");
  manifest[manifest.size() / 2] ^= 1;
  root.write("step-000000000015/MANIFEST", manifest);
  root.open();
  root.save(16);
  CHECK(root.steps() == std::vector<int64_t>{16, 20, 10});
  CHECK(root.sequences() == std::vector<uint64_t>{3, 2, 1});
  const RootListing listing = list_root(root.files, kRootPath);
  REQUIRE(listing.bad.size() == 1);
  CHECK(listing.bad[0].name == "step-000000000015");
  CHECK_THAT(listing.bad[0].reason, Contains("corrupt"));
}

TEST_CASE("a manifest that cannot be read for once does not make the new step an old one") {
  SimRoot root;
  root.save(8);
  FaultFiles faults(root.files);
  Env env = test::env_of(faults);
  root.writer.reset();
  const auto writer = RootWriter::open(env, kRootPath, "r", nullptr, 0);
  faults.fail(FileOperation::kRead, 0, EIO, "step-000000000008/MANIFEST");
  save_step(*writer, faults, {5, {}, {}, {}});
  CHECK(root.steps() == std::vector<int64_t>{5, 8});
  CHECK(root.sequences() == std::vector<uint64_t>{2, 1});
}

TEST_CASE("a save syncs everything in its order") {
  SimRoot root;
  root.save(1);
  const Names before = root.files.syncs();
  root.save(2, 1);
  Names syncs = root.files.syncs();
  syncs.erase(syncs.begin(), syncs.begin() + static_cast<ptrdiff_t>(before.size()));
  for (std::string& sync : syncs) {
    const size_t random = sync.find("tmp-000000000002-");
    if (random != sync.npos) sync.replace(random, 33, "T");
  }
  const std::string in = kRootPath + "/T/";
  const Names want = {"data " + in + "s00000.plt", "data " + in + "s00000.idx",
                      "data " + in + "s00001.plt", "data " + in + "s00001.idx",
                      "data " + in + "s00002.plt", "data " + in + "s00002.idx",
                      "all " + in + "MANIFEST",    "directory " + kRootPath + "/T",
                      "directory " + kRootPath,    "all " + kRootPath + "/LATEST.tmp",
                      "directory " + kRootPath,    "directory " + kRootPath};
  CHECK(syncs == want);
}

TEST_CASE("equal states in two roots differ in their sequence alone") {
  std::vector<std::vector<std::string>> contents;
  for (const int64_t steps_before : {0, 2}) {
    SimRoot root;
    for (int64_t step = 1; step <= steps_before; ++step) root.save(step);
    const std::string path = root.save(9);
    std::vector<std::string> files;
    for (const std::string& name : root.files.list(path)) {
      files.push_back(name);
      if (name != "INFO.json")
        files.push_back(read_file(root.files, join_path(path, name), 1 << 20));
      if (name == "MANIFEST") files.back().resize(files.back().size() - 32);  // from sequence on
    }
    contents.push_back(files);
  }
  CHECK(contents[0].size() == 15);
  CHECK(contents[0] == contents[1]);
}

TEST_CASE("a step that is there stays, or is replaced in one step") {
  SimRoot root;
  root.save(1);
  root.save(2);
  const std::string saved = root.read("step-000000000002/MANIFEST");
  const Error error = caught([&] { root.save(2); });
  CHECK(error.word() == "step_exists");
  CHECK(error.message().find("checkpoint.on_existing=replace") != std::string::npos);
  CHECK(root.read("step-000000000002/MANIFEST") == saved);
  CHECK(other_names(root.files, kRootPath).empty());

  // It may come between begin and commit, too.
  const test::SmallState state(3, 3);
  const std::string temporary = root.writer->begin(3, 1, {});
  const Manifest manifest = write_shards(root.files, temporary, state);
  root.save(3);
  CHECK(caught([&] { root.writer->commit(temporary, manifest, "{}", {}); }).word() ==
        "step_exists");
  root.writer->discard(temporary);
  CHECK(other_names(root.files, kRootPath).empty());

  root.commit.may_replace = true;
  root.save(2);
  CHECK(root.steps() == std::vector<int64_t>{2, 3, 1});
  CHECK(root.sequences() == std::vector<uint64_t>{4, 3, 1});
  CHECK(other_names(root.files, kRootPath).empty());
  CHECK(root.faults().empty());
}

TEST_CASE("a step that was replaced stays as long as someone reads it") {
  SimRoot root;
  root.save(1);
  auto reader = StepReader::open(root.files, root.in("step-000000000001"));
  root.commit.may_replace = true;
  root.save(1);
  CHECK(other_names(root.files, kRootPath).size() == 1);
  root.save(2);
  CHECK(other_names(root.files, kRootPath).size() == 1);
  reader.reset();
  root.save(3);
  CHECK(other_names(root.files, kRootPath).empty());
}

TEST_CASE("a step cannot be replaced where paths cannot be swapped") {
  SimRoot root;
  root.save(1);
  FaultFiles faults(root.files);
  Env env = test::env_of(faults);
  root.writer.reset();
  const auto writer = RootWriter::open(env, kRootPath, "r", nullptr, 0);
  faults.fail(FileOperation::kExchange, 0, EINVAL);
  test::SavePlan plan{1, {}, {}, {}};
  plan.commit.may_replace = true;
  caught([&] { save_step(*writer, faults, plan); });
  CHECK(faults.count(FileOperation::kExchange) == 1);
  CHECK(root.sequences() == std::vector<uint64_t>{1});
  CHECK(root.faults().empty());
  CHECK(other_names(root.files, kRootPath).empty());
}

TEST_CASE("a save that will not fit is refused before anything is written") {
  SimRoot root;
  const Names before = root.files.tree();
  root.files.set_free_bytes(1049);
  const Error error = caught([&] { root.writer->begin(1, 1000, {}); });
  CHECK(error.word() == "no_space");
  CHECK(field_of(error, "need") == "1050");
  CHECK(field_of(error, "free") == "1049");
  CHECK(root.files.tree() == before);
  root.files.set_free_bytes(1050);
  CHECK_NOTHROW(root.writer->begin(1, 1000, {}));
  root.files.set_free_bytes(1051);
  CHECK(caught([&] { root.writer->begin(2, 1001, {}); }).word() == "no_space");
}

TEST_CASE("a shard that has vanished or changed its size is noticed before the commit") {
  for (const bool is_gone : {true, false}) {
    SimRoot root;
    const std::string temporary = root.writer->begin(1, 1, {});
    const Manifest manifest = write_shards(root.files, temporary, test::SmallState(1, 3));
    const std::string victim = join_path(temporary, "s00001.idx");
    if (is_gone) {
      root.files.unlink(victim);
    } else {
      root.files.create(victim, false);
    }
    const Error error = caught([&] { root.writer->commit(temporary, manifest, "{}", {}); });
    CHECK(error.word() == "io_error");
    CHECK_THAT(error.message(), Contains("s00001.idx"));
    CHECK(root.steps().empty());
  }
}

TEST_CASE("a commit whose name is not durable is taken back") {
  for (const bool is_replacing : {false, true}) {
    SimRoot root;
    root.save(1);
    if (is_replacing) root.save(2);
    FaultFiles faults(root.files);
    Env env = test::env_of(faults);
    root.writer.reset();
    const auto writer = RootWriter::open(env, kRootPath, "r", nullptr, 0);
    faults.before_each([&](FileOperation kind, const std::string&) {
      const FileOperation last = is_replacing ? FileOperation::kExchange : FileOperation::kRename;
      if (kind == FileOperation::kSyncDirectory && faults.count(last) == 1 &&
          faults.count(FileOperation::kUnlink) == 0) {
        faults.fail(kind, faults.count(kind), EIO);
      }
    });
    test::SavePlan plan{2, {is_replacing, false}, {}, {}};
    CHECK(caught([&] { save_step(*writer, faults, plan); }).word() == "io_error");
    CHECK(root.sequences() ==
          (is_replacing ? std::vector<uint64_t>{2, 1} : std::vector<uint64_t>{1}));
    CHECK(root.faults().empty());
  }
}

}  // namespace
}  // namespace plait
