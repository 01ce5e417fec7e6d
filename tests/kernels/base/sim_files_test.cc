// SimFiles: like real files while the power is on, and what may be left when it fails.
#include "tests/support/sim_files.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/env.h"
#include "kernels/base/error.h"
#include "tests/kernels/base/posix_files.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

constexpr uint64_t kDraws = test::kIsSanitized ? 300 : 3000;

void sim_write(File& file, const std::string& text, int64_t offset) {
  file.pwrite(text.data(), static_cast<int64_t>(text.size()), offset);
}

void sim_put(Files& files, const std::string& path, const std::string& text) {
  const auto file = files.create(path, false);
  sim_write(*file, text, 0);
  file->sync();
}

std::string sim_get(Files& files, const std::string& path) {
  return read_file(files, path, 1 << 30);
}

std::string sim_word(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.word();
  }
  return "";
}

/// Every state of now, as the lines of its tree.
std::set<std::vector<std::string>> trees(const SimFiles& files) {
  std::set<std::vector<std::string>> seen;
  files.for_each_crash(kDraws, 1, [&](SimFiles& after, uint64_t) { seen.insert(after.tree()); });
  return seen;
}

/// What each operation of a script says or throws.
std::vector<std::string> answers(Files& files, const std::string& base) {
  std::vector<std::string> out;
  const auto say = [&](const std::string& answer) { out.push_back(answer); };
  const auto path = [&](const std::string& name) { return join_path(base, name); };
  const auto run = [&](const std::function<void()>& body) { say(sim_word(body)); };
  const auto look = [&](const std::string& name) {
    run([&] { say(sim_get(files, path(name))); });
    say(files.exists(path(name)) ? "there" : "absent");
  };
  run([&] { files.make_directory(path("a")); });
  run([&] { files.make_directory(path("a")); });
  run([&] { files.make_private_directory(path("none/b")); });
  run([&] { files.create(path("a/file"), true)->pwrite("0123456789", 10, 0); });
  run([&] { files.create(path("a/file"), true); });
  run([&] { files.create_private(path("a/file")); });
  run([&] { files.create(path("a"), false); });
  run([&] { files.create(path("none/file"), false); });
  run([&] { files.create(path("a/file/x"), false); });
  look("a/file");
  look("a/file/x");
  const auto file = files.open_or_create(path("a/file"));
  run([&] { file->pwrite("ABC", 3, 12); });
  say(std::to_string(file->size()));
  run([&] { file->allocate(14); });
  run([&] { file->pwrite("tail", 4, 20); });
  look("a/file");
  run([&] { files.open_read(path("a/file"))->pwrite("x", 1, 0); });
  run([&] { files.open_read(path("a")); });
  run([&] { files.open_or_create(path("a")); });
  run([&] { files.open_read(path("none")); });
  run([&] { file->sync_data(); });
  run([&] { files.create(path("a/file"), false); });
  say(std::to_string(file->size()));
  run([&] { files.rename(path("a/file"), path("a/other")); });
  run([&] { files.rename(path("a/file"), path("a/other")); });
  run([&] { file->pwrite("kept", 4, 0); });
  look("a/other");
  run([&] { files.create(path("a/second"), true); });
  run([&] { files.rename_noreplace(path("a/second"), path("a/other")); });
  run([&] { files.rename_noreplace(path("a/none"), path("a/other")); });
  run([&] { files.rename_noreplace(path("a/second"), path("a/third")); });
  run([&] { files.rename(path("a/third"), path("a/other")); });
  run([&] { files.unlink(path("a/third")); });
  run([&] { files.unlink(path("a/other")); });
  run([&] { say(std::to_string(file->size())); });
  run([&] { files.make_directory(path("b")); });
  run([&] { files.make_directory(path("b/inner")); });
  run([&] { files.rename(path("a"), path("b")); });
  run([&] { files.rename(path("b"), path("a")); });
  run([&] { files.create(path("c"), true); });
  run([&] { files.rename(path("a"), path("c")); });
  run([&] { files.rename(path("c"), path("a")); });
  run([&] { files.exchange(path("a"), path("c")); });
  run([&] { files.exchange(path("a"), path("none")); });
  run([&] { say(std::to_string(files.stat(path("a")).bytes)); });
  run([&] { files.unlink(path("c")); });
  run([&] { files.remove_directory(path("c")); });
  run([&] { files.remove_directory(path("a")); });
  run([&] { files.remove_directory(path("c/inner")); });
  run([&] { files.remove_directory(path("c")); });
  run([&] { files.remove_directory(path("c")); });
  run([&] { files.list(path("c")); });
  run([&] { files.list(path("a")); });
  run([&] { files.sync_directory(path("c")); });
  run([&] { files.sync_directory(base); });
  run([&] { files.free_bytes(path("c")); });
  for (const std::string& name : files.list(base)) say(name);
  return out;
}

/// Publishes `text` as DIRECTORY/name the right way: three syncs, F1 to F3.
void publish(Files& files, const std::string& text) {
  files.make_directory("root/tmp");
  const auto file = files.create_private("root/tmp/data");
  file->allocate(static_cast<int64_t>(text.size()));
  for (size_t done = 0; done < text.size(); done += 700)
    sim_write(*file, text.substr(done, 700), static_cast<int64_t>(done));
  file->sync_data();
  file->close();
  files.sync_directory("root/tmp");
  files.rename_noreplace("root/tmp", "root/done");
  files.sync_directory("root");
}

/// Number of states during and after a publication in which it is torn, or acknowledged and absent.
int64_t violations(int64_t dropped, uint64_t limit) {
  const std::string text(3000, 'x');
  SimFiles files;
  files.make_directory("root");
  files.sync_directory("/");
  files.drop_sync(dropped);
  int64_t bad = 0;
  bool is_acknowledged = false;
  const auto check = [&](SimFiles& after, uint64_t) {
    const bool is_there = after.exists("root/done");
    const bool is_whole =
        is_there && after.exists("root/done/data") && sim_get(after, "root/done/data") == text;
    bad += (is_there && !is_whole) || (is_acknowledged && !is_there) ? 1 : 0;
  };
  uint64_t seed = 0;
  files.after_each(
      [&](const char*, const std::string&) { files.for_each_crash(limit, ++seed, check); });
  publish(files, text);
  is_acknowledged = true;
  files.for_each_crash(limit, 99, check);
  return bad;
}

}  // namespace

TEST_CASE("simulated files answer as real ones do", "[sim_files]") {
  const files_test::ScratchDirectory scratch;
  SimFiles files;
  files.make_directory("base");
  const std::vector<std::string> simulated = answers(files, "/base");
  const std::vector<std::string> real = answers(posix_env().files, scratch.path());
  REQUIRE(simulated.size() == real.size());
  for (size_t i = 0; i < real.size(); ++i) {
    INFO("answer " << i);
    CHECK(simulated[i] == real[i]);
  }
}

TEST_CASE("what is synced survives every loss of power", "[sim_files]") {
  SimFiles files;
  files.make_directory("d");
  files.sync_directory("/");
  const std::string text(2000, 'a');
  sim_put(files, "d/file", text);
  files.sync_directory("d");
  CHECK(files.crash_states() == 1);
  // Pending beside it: another file, another name, and more in the same file.
  files.create("d/later", true)->pwrite("x", 1, 0);
  CHECK(files.crash_states() == 8);  // name, byte, size
  files.open_or_create("d/file")->pwrite("more", 4, 5000);
  files.for_each_crash(kDraws, 1, [&](SimFiles& after, uint64_t) {
    CHECK(sim_get(after, "d/file").substr(0, 2000) == text);
    CHECK(after.crash_states() == 1);
  });
}

TEST_CASE("of an unsynced write any pieces and any size may stay", "[sim_files]") {
  SimFiles files;
  sim_put(files, "file", std::string(1500, 'a'));
  files.sync_directory("/");
  const auto file = files.open_or_create("file");
  sim_write(*file, std::string(2100, 'b'), 500);
  CHECK(files.crash_states() == 128);  // 12 bytes, 4 whole pieces, 40 bytes; 2 sizes
  std::set<std::string> seen;
  files.for_each_crash(kDraws, 1, [&](SimFiles& after, uint64_t choice) {
    const std::string text = sim_get(after, "file");
    seen.insert(text);
    CHECK(text.substr(0, 500) == std::string(500, 'a'));
    CHECK((text.size() == 1500 || text.size() == 2600));
    for (size_t begin = 0; begin < text.size(); begin += 512) {
      const std::string piece = text.substr(std::max<size_t>(begin, 500), 512 - (begin == 0) * 500);
      const bool is_new = piece.find_first_not_of('b') == std::string::npos;
      const bool is_old = piece.find('b') == std::string::npos;
      INFO(choice << " " << begin);
      CHECK((is_new || is_old));
    }
  });
  // Pieces behind the old size are the same lost or cut off: 3 pieces × (cut off, or 3 more
  // pieces).
  CHECK(seen.size() == 8 * (1 + 8));
  file->sync_data();
  CHECK(files.crash_states() == 1);
  SimFiles after = files.crash(0);
  CHECK(sim_get(after, "file") == std::string(500, 'a') + std::string(2100, 'b'));
}

TEST_CASE("a cut file may have its old bytes again", "[sim_files]") {
  SimFiles files;
  sim_put(files, "file", "old");
  files.sync_directory("/");
  sim_write(*files.create("file", false), "news", 0);
  std::set<std::string> seen;
  files.for_each_crash(kDraws, 1,
                       [&](SimFiles& after, uint64_t) { seen.insert(sim_get(after, "file")); });
  for (const char* text : {"old", "", "new", "news"}) {
    INFO(text);
    CHECK(seen.count(text) == 1);
  }
  CHECK(seen.count(std::string("old\0", 4)) == 1);  // the size alone
}

TEST_CASE("a name is durable when its directory is synced", "[sim_files]") {
  SimFiles files;
  files.make_directory("d");
  sim_put(files, "d/file", "text");
  CHECK(trees(files) == std::set<std::vector<std::string>>{{}, {"d /d"}, {"d /d", "f /d/file 4"}});
  files.sync_directory("d");
  CHECK(trees(files) == std::set<std::vector<std::string>>{{}, {"d /d", "f /d/file 4"}});
  files.sync_directory("/");
  CHECK(trees(files) == std::set<std::vector<std::string>>{{"d /d", "f /d/file 4"}});
}

TEST_CASE("a rename is lost or kept, never torn", "[sim_files]") {
  SimFiles files;
  sim_put(files, "LATEST", "old");
  files.sync_directory("/");
  sim_put(files, "LATEST.tmp", "newer");
  files.sync_directory("/");
  files.rename("LATEST.tmp", "LATEST");
  CHECK(trees(files) ==
        std::set<std::vector<std::string>>{{"f /LATEST 3", "f /LATEST.tmp 5"}, {"f /LATEST 5"}});
  files.sync_directory("/");
  CHECK(trees(files) == std::set<std::vector<std::string>>{{"f /LATEST 5"}});

  sim_put(files, "other", "seven77");
  files.sync_directory("/");
  files.exchange("LATEST", "other");
  CHECK(trees(files) == std::set<std::vector<std::string>>{{"f /LATEST 5", "f /other 7"},
                                                           {"f /LATEST 7", "f /other 5"}});
  files.sync_directory("/");
  // Two renames of one file: each alone or both, and one name in any case.
  files.rename("other", "b");
  files.rename("b", "c");
  const auto seen = trees(files);
  CHECK(seen.size() == 3);
  for (const auto& tree : seen) CHECK(tree.size() == 2);
}

TEST_CASE("removal inside may outlive the renaming outside", "[sim_files]") {
  SimFiles files;
  files.make_directory("step");
  sim_put(files, "step/data", "text");
  files.sync_directory("step");
  files.sync_directory("/");
  files.rename("step", "trash");
  const SimFiles before = files.kill();
  files.unlink("trash/data");
  CHECK(trees(files).count({"d /step"}) == 1);
  files.remove_directory("trash");
  CHECK(trees(files).count({}) == 1);
  // The state taken earlier knows nothing of it, and has the rename pending.
  CHECK(trees(before) == std::set<std::vector<std::string>>{{"d /step", "f /step/data 4"},
                                                            {"d /trash", "f /trash/data 4"}});
}

TEST_CASE("states are counted when few and drawn when many", "[sim_files]") {
  SimFiles files;
  for (const char* name : {"a", "b", "c"}) files.make_directory(name);
  CHECK(files.crash_states() == 8);
  CHECK(trees(files).size() == 8);
  CHECK(files.crash(3).tree() == files.crash(11).tree());
  const auto file = files.create("file", true);
  file->pwrite(std::string(100000, 'x').data(), 100000, 0);
  CHECK(files.crash_states() == SimFiles::kMany);
  CHECK(files.crash(0).tree().empty());
  CHECK(files.crash(1).tree() == files.tree());
  std::map<std::vector<std::string>, int64_t> seen;
  int64_t states = 0, wholes = 0, holes = 0;
  files.for_each_crash(kDraws, 7, [&](SimFiles& after, uint64_t choice) {
    ++states;
    ++seen[after.tree()];
    CHECK(files.crash(choice).tree() == after.tree());
    if (!after.exists("file") || after.stat("file").bytes == 0) return;
    const std::string text = sim_get(after, "file");
    const size_t hole = text.find('\0');
    wholes += hole == std::string::npos ? 1 : 0;
    holes += hole != std::string::npos && text.find('x', hole) != std::string::npos ? 1 : 0;
  });
  CHECK(states == static_cast<int64_t>(kDraws));
  CHECK(seen.size() >= 12);
  CHECK(wholes > states / 50);
  CHECK(holes > states / 50);
}

TEST_CASE("states leave the run alone, and go on by themselves", "[sim_files]") {
  SimFiles files;
  const auto file = files.create("file", true);
  sim_write(*file, std::string(1000, 'a'), 0);
  SimFiles seen = files.kill();
  SimFiles after = files.crash(files.crash_states() - 1);
  sim_write(*file, "b", 0);
  sim_write(*after.open_or_create("file"), "c", 0);
  after.unlink("file");
  after.make_directory("later");
  CHECK(sim_get(files, "file").substr(0, 2) == "ba");
  CHECK(sim_get(seen, "file").substr(0, 2) == "aa");
  CHECK(after.tree() == std::vector<std::string>{"d /later"});
  sim_write(*seen.open_or_create("file"), "d", 1);
  CHECK(sim_get(files, "file").substr(0, 2) == "ba");
}

TEST_CASE("locks are those of open files and end with them", "[sim_files]") {
  SimFiles files;
  const auto a = files.open_or_create("LOCK");
  auto b = files.open_or_create("LOCK");
  CHECK(a->try_lock_shared());
  CHECK(b->try_lock_shared());
  CHECK_FALSE(a->try_lock_exclusive());
  b.reset();
  CHECK(a->try_lock_exclusive());
  b = files.open_read("LOCK");
  CHECK_FALSE(b->try_lock_shared());
  SimFiles next = files.kill();
  CHECK(next.open_or_create("LOCK")->try_lock_exclusive());
  SimFiles after = files.crash(1);
  CHECK(after.open_or_create("LOCK")->try_lock_exclusive());
  a->close();
  CHECK(b->try_lock_exclusive());
  CHECK(sim_word([&] { a->try_lock_shared(); }) == "io_error");
}

TEST_CASE("every operation that changes something is seen, once", "[sim_files]") {
  SimFiles files;
  std::vector<std::string> seen;
  files.after_each([&](const char* operation, const std::string& path) {
    seen.push_back(std::string(operation) + " " + path);
    files.crash(0);
  });
  files.make_directory("root");
  publish(files, std::string(1000, 'x'));
  CHECK(seen == std::vector<std::string>{
                    "make directory root", "make directory root/tmp", "create root/tmp/data",
                    "allocate root/tmp/data", "write root/tmp/data", "write root/tmp/data",
                    "sync root/tmp/data", "close root/tmp/data", "sync directory root/tmp",
                    "rename root/done", "sync directory root"});
  CHECK(files.operations() == static_cast<int64_t>(seen.size()));
  CHECK(files.syncs() ==
        std::vector<std::string>{"data root/tmp/data", "directory root/tmp", "directory root"});
  files.set_free_bytes(12345);
  CHECK(files.free_bytes("root") == 12345);
  CHECK(sim_word([&] { files.rename("root/done", "done"); }) == "argument");
  CHECK(sim_word([&] { files.exchange("root/done", "root"); }) == "argument");
}

TEST_CASE("a publication needs each of its syncs", "[sim_files]") {
  const uint64_t limit = test::kIsSanitized ? 60 : 600;
  CHECK(violations(-1, limit) == 0);
  for (int64_t dropped = 0; dropped < 3; ++dropped) {
    INFO(dropped);
    CHECK(violations(dropped + 1, limit) > 0);  // sync 0 made root durable
  }
}

}  // namespace plait
