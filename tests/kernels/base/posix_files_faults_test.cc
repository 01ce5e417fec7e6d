// Files of the running system when it fails, limits, interrupts, or a process ends.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/base/posix_files.h"

namespace plait {
namespace {

using namespace files_test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

void ignore_alarm(int) {}

}  // namespace

TEST_CASE("a lock ends with the process that held it", "[files]") {
  const ScratchDirectory scratch;
  const std::string path = scratch.path("lock");
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = posix().open_or_create(path);
    const char answer = held->try_lock_exclusive() ? 'y' : 'n';
    if (::write(ready[1], &answer, 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  REQUIRE(child > 0);
  ::close(ready[1]);
  char answer = 0;
  CHECK(::read(ready[0], &answer, 1) == 1);
  CHECK(answer == 'y');
  const auto file = posix().open_or_create(path);
  CHECK_FALSE(file->try_lock_exclusive());
  CHECK(::kill(child, SIGKILL) == 0);
  CHECK(::waitpid(child, nullptr, 0) == child);
  CHECK(file->try_lock_exclusive());
  ::close(ready[0]);
}

TEST_CASE("the limit for files is an error and no signal", "[files]") {
  const ScratchDirectory scratch;
  constexpr int64_t kLimit = 1 << 20;
  const auto file = posix().create_private(scratch.path("file"));
  const std::string page(4096, 'x');
  const auto write_at = [&](int64_t offset) {
    return failure_of([&] { file->pwrite(page.data(), 4096, offset); });
  };
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = kLimit;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &few) == 0);
  // The last byte, across it, behind it, far behind it; space up to it and past it.
  const std::vector<std::string> results = {write_at(kLimit - 4096),
                                            write_at(kLimit - 4095),
                                            write_at(kLimit),
                                            write_at(kLimit << 20),
                                            failure_of([&] { file->allocate(kLimit); }),
                                            failure_of([&] { file->allocate(kLimit + 1); })};
  const int64_t size = file->size();
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(size == kLimit);
  CHECK(results[0].empty());
  CHECK(results[4].empty());
  for (const size_t i : {1, 2, 3, 5}) {
    INFO(i);
    CHECK_THAT(results[i], StartsWith("file_too_large:") && Contains("limit=1048576") &&
                               Contains(scratch.path("file")) && Contains("need="));
  }
  CHECK_THAT(results[5], Contains("need=1048577"));
  CHECK(get(scratch.path("file")).substr(kLimit - 4096) == page);
}

TEST_CASE("each failure of the system has its word", "[files]") {
  const ScratchDirectory scratch;
  const std::pair<int, const char*> words[] = {
      {ENOSPC, "no_space"},       {EDQUOT, "quota"},          {EFBIG, "file_too_large"},
      {EMFILE, "too_many_files"}, {ENFILE, "too_many_files"}, {EACCES, "permission"},
      {EPERM, "permission"},      {EROFS, "read_only"},       {ENOENT, "no_file"},
      {ESTALE, "root_gone"},      {ENODEV, "root_gone"},      {ENAMETOOLONG, "argument"},
      {EIO, "io_error"},          {EXDEV, "io_error"}};
  const auto file = posix().create_private(scratch.path("file"));
  for (const auto& [failure, word] : words) {
    INFO(word << " " << failure);
    const auto create = [&] { posix().create_private(scratch.path("other")); };
    CHECK(word_where(SYS_openat, failure, create) == word);
    CHECK(word_where(SYS_pwrite64, failure, [&] { file->pwrite("x", 1, 0); }) == word);
    CHECK(word_where(SYS_fdatasync, failure, [&] { file->sync_data(); }) == word);
    CHECK(word_where(SYS_fsync, failure, [&] { file->sync(); }) == word);
    const auto sync_directory = [&] { posix().sync_directory(scratch.path()); };
    CHECK(word_where(SYS_fsync, failure, sync_directory) == word);
  }
  CHECK_FALSE(posix().exists(scratch.path("other")));
  const auto full = posix().create("/dev/full", false);
  CHECK_THAT(failure_of([&] { full->pwrite("text", 4, 0); }),
             StartsWith("no_space:") && Contains("need=4") && Contains("free="));
}

TEST_CASE("a storm of signals changes nothing", "[files]") {
  const ScratchDirectory scratch;
  struct sigaction action {
  }, before{};
  action.sa_handler = ignore_alarm;  // calls are interrupted, not begun again
  REQUIRE(::sigaction(SIGALRM, &action, &before) == 0);
  const itimerval storm{{0, 100}, {0, 100}}, calm{};
  std::string data(size_t{8} << 20, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
  std::string copy(data.size(), '\0');
  const int64_t bytes = static_cast<int64_t>(data.size());
  REQUIRE(::setitimer(ITIMER_REAL, &storm, nullptr) == 0);
  const std::string failure = failure_of([&] {
    posix().make_private_directory(scratch.path("tmp"));
    const auto file = posix().create_private(scratch.path("tmp/file"));
    file->allocate(bytes);
    file->pwrite(data.data(), bytes, 0);
    file->sync_data();
    file->pread(copy.data(), bytes, 0);
    file->close();
    posix().sync_directory(scratch.path("tmp"));
    posix().rename_noreplace(scratch.path("tmp"), scratch.path("step"));
    posix().sync_directory(scratch.path());
  });
  ::setitimer(ITIMER_REAL, &calm, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  CHECK(failure.empty());
  CHECK(copy == data);
  CHECK(posix().stat(scratch.path("step/file")).bytes == bytes);
}

}  // namespace plait
