// Files of the running system on a real directory: what each operation does.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "tests/kernels/base/posix_files.h"

namespace plait {
namespace {

using namespace files_test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

mode_t mode_of(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) throw errno_error(errno, "stat", path);
  return info.st_mode & 07777;
}

}  // namespace

TEST_CASE("a private file is new, its owner's alone, and no link", "[files]") {
  const ScratchDirectory scratch;
  const mode_t mask = ::umask(0);
  const std::string path = scratch.path("new"), other = scratch.path("lock");
  posix().create_private(path)->pwrite("text", 4, 0);
  posix().open_or_create(other);
  posix().make_private_directory(scratch.path("directory"));
  ::umask(mask);
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of(other) == 0600);
  CHECK(mode_of(scratch.path("directory")) == 0700);
  CHECK(get(path) == "text");
  CHECK(file_word([&] { posix().create_private(path); }) == "target_exists");
  CHECK(file_word([&] { posix().make_private_directory(path); }) == "target_exists");
  CHECK(file_word([&] { posix().create_private(scratch.path("no/new")); }) == "no_file");
  fs::create_symlink("nowhere", scratch.path("link"));
  CHECK(file_word([&] { posix().create_private(scratch.path("link")); }) == "target_exists");
  CHECK_FALSE(fs::exists(scratch.path("nowhere")));
  CHECK(get(path) == "text");
}

TEST_CASE("a file that is there is opened as it is", "[files]") {
  const ScratchDirectory scratch;
  const std::string path = scratch.path("lock");
  put(path, "holder");
  {
    const auto file = posix().open_or_create(path);
    CHECK(file->size() == 6);
    file->pwrite("H", 1, 0);
    CHECK(file->path() == path);
  }
  CHECK(get(path) == "Holder");
  CHECK(file_word([&] { posix().open_or_create(scratch.path()); }) == "invalid_file");
  CHECK(file_word([&] { posix().open_or_create(scratch.path("no/lock")); }) == "no_file");
}

TEST_CASE("only regular files are opened, and links where they are welcome", "[files]") {
  const ScratchDirectory scratch;
  put(scratch.path("file"), "text");
  fs::create_symlink("file", scratch.path("link"));
  fs::create_symlink("link", scratch.path("twice"));
  fs::create_directory(scratch.path("directory"));
  put(scratch.path("directory/file"), "inner");
  fs::create_directory_symlink("directory", scratch.path("way"));
  REQUIRE(::mkfifo(scratch.path("fifo").c_str(), 0600) == 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket_path = scratch.path("socket");
  REQUIRE(socket_path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);

  const auto open = [&](const std::string& name, Links links) {
    return file_word([&] { posix().open_read(scratch.path(name), links); });
  };
  for (const char* name : {"file", "way/file", "directory/file"}) {
    INFO(name);
    CHECK(open(name, Links::kFollow).empty());
    CHECK(open(name, Links::kRefuse).empty());
  }
  for (const char* name : {"link", "twice"}) {
    INFO(name);
    CHECK(open(name, Links::kFollow).empty());
    CHECK(open(name, Links::kRefuse) == "invalid_file");
    CHECK(file_word([&] { posix().open_or_create(scratch.path(name)); }) == "invalid_file");
  }
  for (const char* name : {"fifo", "directory", "socket"}) {
    INFO(name);
    CHECK(open(name, Links::kFollow) == "invalid_file");
    CHECK(open(name, Links::kRefuse) == "invalid_file");
    CHECK(file_word([&] { posix().open_or_create(scratch.path(name)); }) == "invalid_file");
  }
  CHECK(file_word([&] { posix().open_read("/dev/null", Links::kRefuse); }) == "invalid_file");
  CHECK(open("nothing", Links::kRefuse) == "no_file");
  CHECK(get(scratch.path("link")) == "text");
  ::close(socket);
}

TEST_CASE("space is asked for, and the size becomes what was asked", "[files]") {
  const ScratchDirectory scratch;
  const std::string path = scratch.path("file");
  const auto file = posix().create_private(path);
  file->allocate(1 << 20);
  CHECK(file->size() == 1 << 20);
  const int descriptor = ::open(scratch.path("probe").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(descriptor >= 0);
  if (::fallocate(descriptor, 0, 0, 4096) == 0) {
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK(info.st_blocks * 512 >= 1 << 20);
  }
  ::close(descriptor);
  file->pwrite("end", 3, (1 << 20) - 3);
  CHECK(file->size() == 1 << 20);
  file->sync_data();
  file->allocate(5);
  CHECK(file->size() == 5);
  CHECK(get(path) == std::string(5, '\0'));
  file->allocate(0);
  CHECK(file->size() == 0);
  file->allocate(7);
  file->close();
  CHECK(posix().stat(path).bytes == 7);

  for (const int failure : {EOPNOTSUPP, ENOSYS, EINTR}) {
    INFO(failure);
    const auto other = posix().create(scratch.path("other"), false);
    CHECK(failure_where(SYS_fallocate, failure, [&] { other->allocate(9999); }).empty());
    CHECK(other->size() == 9999);
  }
  const auto full = posix().create(scratch.path("full"), true);
  CHECK_THAT(failure_where(SYS_fallocate, ENOSPC, [&] { full->allocate(9999); }),
             StartsWith("no_space:") && Contains("need=9999") && Contains("free=") &&
                 Contains(scratch.path("full")));
  CHECK(word_where(SYS_fallocate, EDQUOT, [&] { full->allocate(9999); }) == "quota");
  CHECK(word_where(SYS_fallocate, EIO, [&] { full->allocate(9999); }) == "io_error");
}

TEST_CASE("bytes of a file are shown from any place of it, as far as it goes", "[files]") {
  const ScratchDirectory scratch;
  const auto file = posix().create_private(scratch.path("file"));
  std::string text(100000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 % 251);
  file->pwrite(text.data(), static_cast<int64_t>(text.size()), 0);
  for (const int64_t offset : {0, 1, 4095, 4096, 70000, 99999}) {
    const int64_t bytes = static_cast<int64_t>(text.size()) - offset;
    const auto mapping = file->map(bytes, offset);
    REQUIRE(mapping != nullptr);
    CHECK(std::string(mapping->data(), static_cast<size_t>(bytes)) ==
          text.substr(static_cast<size_t>(offset)));
    CHECK(file->map(bytes + 1, offset) == nullptr);
  }
  CHECK(file->map(0, 0) == nullptr);
  const auto kept = file->map(5, 10);
  file->close();
  posix().unlink(file->path());
  CHECK(std::string(kept->data(), 5) == text.substr(10, 5));
}

TEST_CASE("a closed file does nothing more, and says what closing said", "[files]") {
  const ScratchDirectory scratch;
  const auto file = posix().create_private(scratch.path("file"));
  file->pwrite("text", 4, 0);
  file->sync();
  file->close();
  file->close();
  char byte = 0;
  CHECK(file_word([&] { file->pwrite("x", 1, 0); }) == "io_error");
  CHECK(file_word([&] { file->pread(&byte, 1, 0); }) == "io_error");
  CHECK(file_word([&] { file->sync(); }) == "io_error");
  CHECK(file_word([&] { file->sync_data(); }) == "io_error");
  CHECK(file_word([&] { file->allocate(10); }) == "io_error");
  CHECK(file_word([&] { file->size(); }) == "io_error");
  CHECK(file_word([&] { file->try_lock_shared(); }) == "io_error");
  CHECK(get(scratch.path("file")) == "text");
  const std::pair<int, const char*> failures[] = {
      {EIO, "io_error"}, {ENOSPC, "no_space"}, {EDQUOT, "quota"}, {EINTR, ""}};
  for (const auto& [failure, word] : failures) {
    const auto other = posix().create_private(scratch.path(std::to_string(failure)));
    CHECK(word_where(SYS_close, failure, [&] { other->close(); }) == word);
    CHECK(failure_of([&] { other->close(); }).empty());
  }
}

TEST_CASE("locks of two open files exclude each other as they should", "[files]") {
  const ScratchDirectory scratch;
  const std::string path = scratch.path("lock");
  const auto a = posix().open_or_create(path);
  auto b = posix().open_or_create(path);
  CHECK(a->try_lock_shared());
  CHECK(b->try_lock_shared());
  CHECK_FALSE(a->try_lock_exclusive());
  b.reset();
  CHECK(a->try_lock_exclusive());
  CHECK(a->try_lock_exclusive());
  b = posix().open_read(path);
  CHECK_FALSE(b->try_lock_shared());
  CHECK_FALSE(b->try_lock_exclusive());
  a->close();
  CHECK(b->try_lock_exclusive());
  CHECK(b->try_lock_shared());
  CHECK(posix().open_read(path)->try_lock_shared());
  for (const int failure : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    INFO(failure);
    const auto c = posix().open_read(path);
    bool is_held = false;
    CHECK(failure_where(SYS_flock, failure, [&] { is_held = c->try_lock_exclusive(); }).empty());
    CHECK(is_held);
  }
  CHECK(word_where(SYS_flock, EIO, [&] { b->try_lock_shared(); }) == "io_error");
}

TEST_CASE("two paths are swapped in one step, or not at all", "[files]") {
  const ScratchDirectory scratch;
  const std::string a = scratch.path("a"), b = scratch.path("b"), file = scratch.path("file");
  for (const std::string& path : {a, b}) {
    posix().make_directory(path);
    put(join_path(path, "name"), path);
  }
  put(file, "text");
  const bool is_able = failure_of([&] { posix().exchange(a, b); }).empty();
  if (is_able) {
    CHECK(get(join_path(a, "name")) == b);
    CHECK(get(join_path(b, "name")) == a);
    posix().exchange(a, file);
    CHECK(get(a) == "text");
    CHECK(get(join_path(file, "name")) == b);
    posix().exchange(file, a);
    posix().exchange(b, a);
  }
  for (const int failure : {EINVAL, ENOSYS}) {
    CHECK_THAT(failure_where(SYS_renameat2, failure, [&] { posix().exchange(a, b); }),
               StartsWith("no_exchange:") && Contains(b));
  }
  CHECK(word_where(SYS_renameat2, EROFS, [&] { posix().exchange(a, b); }) == "read_only");
  CHECK(file_word([&] { posix().exchange(a, scratch.path("none")); }) == "no_file");
  CHECK(get(join_path(a, "name")) == a);
  CHECK(get(join_path(b, "name")) == b);
  CHECK(get(file) == "text");
}

TEST_CASE("what is there is not replaced, with or without the system's help", "[files]") {
  const int failure = GENERATE(0, EINVAL, ENOSYS);
  const ScratchDirectory scratch;
  const std::string from = scratch.path("from");
  const auto rename_to = [&](const std::string& to) {
    const auto body = [&] { posix().rename_noreplace(from, scratch.path(to)); };
    return failure == 0 ? file_word(body) : word_where(SYS_renameat2, failure, body);
  };
  put(from, "new");
  put(scratch.path("file"), "old");
  fs::create_directory(scratch.path("directory"));
  fs::create_symlink("nowhere", scratch.path("link"));
  for (const char* to : {"file", "directory", "link"}) {
    INFO(to << " " << failure);
    CHECK(rename_to(to) == "target_exists");
  }
  CHECK(get(from) == "new");
  CHECK(get(scratch.path("file")) == "old");
  CHECK(fs::is_symlink(scratch.path("link")));
  CHECK(rename_to("no/where") == "no_file");
  CHECK(rename_to("free").empty());
  CHECK(get(scratch.path("free")) == "new");
  CHECK(rename_to("free") == (failure == 0 ? "no_file" : "target_exists"));
  CHECK(rename_to("free too") == "no_file");
}

TEST_CASE("space left is that of this user", "[files]") {
  const ScratchDirectory scratch;
  struct statvfs room {};
  REQUIRE(::statvfs(scratch.path().c_str(), &room) == 0);
  const int64_t bytes = posix().free_bytes(scratch.path());
  CHECK(bytes >= 0);
  if (room.f_blocks != 0) {
    CHECK(static_cast<uint64_t>(bytes) <= uint64_t{room.f_blocks} * room.f_frsize);
    CHECK(static_cast<uint64_t>(bytes) % room.f_frsize == 0);
  }
  CHECK(posix().free_bytes("/proc") == std::numeric_limits<int64_t>::max());  // counts no blocks
  CHECK(file_word([&] { posix().free_bytes(scratch.path("none")); }) == "no_file");
}

}  // namespace plait
