#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "kernels/base/env.h"
#include "kernels/base/error.h"
#include "kernels/base/posix_file.h"

namespace plait {
namespace {

class PosixFiles final : public Files {
 public:
  std::unique_ptr<File> open_read(const std::string& path, Links links) override {
    const int flags = O_RDONLY | (links == Links::kRefuse ? O_NOFOLLOW : 0);
    return open_regular(path, flags, "open");
  }

  std::unique_ptr<File> create(const std::string& path, bool must_be_new) override {
    return create_file(path, must_be_new ? O_EXCL : O_TRUNC, 0666);
  }

  std::unique_ptr<File> create_private(const std::string& path) override {
    return create_file(path, O_EXCL | O_NOFOLLOW, 0600);
  }

  std::unique_ptr<File> open_or_create(const std::string& path) override {
    return open_regular(path, O_RDWR | O_CREAT | O_NOFOLLOW, "create");
  }

  bool exists(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw errno_error(errno, "stat", path);
  }

  FileInfo stat(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) throw errno_error(errno, "stat", path);
    FileInfo out;
    if (S_ISREG(info.st_mode)) out.kind = FileInfo::Kind::kRegular;
    if (S_ISDIR(info.st_mode)) out.kind = FileInfo::Kind::kDirectory;
    out.bytes = info.st_size;
    return out;
  }

  std::vector<std::string> list(const std::string& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), &::closedir);
    if (stream == nullptr) throw errno_error(errno, "open directory", directory);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    const int failure = errno;
    if (failure != 0) throw errno_error(failure, "list", directory);
    std::sort(names.begin(), names.end());
    return names;
  }

  void make_directory(const std::string& path) override { make_with_mode(path, 0777); }

  void make_private_directory(const std::string& path) override { make_with_mode(path, 0700); }

  void sync_directory(const std::string& path) override {
    const int descriptor =
        uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (descriptor < 0) throw errno_error(errno, "open directory", path);
    const int result = uninterrupted([&] { return ::fsync(descriptor); });
    const int failure = errno;
    ::close(descriptor);
    if (result != 0) throw errno_error(failure, "sync directory", path);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) throw errno_error(errno, "rename", to);
  }

  void rename_noreplace(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST) throw target_exists(to);
    if (errno != EINVAL && errno != ENOSYS) throw errno_error(errno, "rename", to);
    struct stat info {};
    if (::lstat(to.c_str(), &info) == 0) throw target_exists(to);
    if (errno != ENOENT) throw errno_error(errno, "stat", to);
    rename(from, to);
  }

  void exchange(const std::string& a, const std::string& b) override {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
    const int failure = errno;
    if (failure != EINVAL && failure != ENOSYS) throw errno_error(failure, "exchange", b);
    throw Error("no_exchange", "the file system cannot swap two paths in one step")
        .with("path", b)
        .with("errno", failure);
  }

  void unlink(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) throw errno_error(errno, "unlink", path);
  }

  void remove_directory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) throw errno_error(errno, "remove directory", path);
  }

  int64_t free_bytes(const std::string& directory) override {
    struct statvfs room {};
    if (uninterrupted([&] { return ::statvfs(directory.c_str(), &room); }) != 0)
      throw errno_error(errno, "free space", directory);
    return available_bytes(room);
  }

 private:
  static Error target_exists(const std::string& path) {
    return Error("target_exists", "the path exists already").with("path", path);
  }

  /// Opening a FIFO does not block; it, a link that is refused, a directory, a socket and a device
  /// are invalid_file.
  static std::unique_ptr<File> open_regular(const std::string& path, int flags,
                                            const char* operation) {
    auto file = std::make_unique<PosixFile>(path);
    flags |= O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    const int descriptor = uninterrupted([&] { return ::open(path.c_str(), flags, 0600); });
    const bool is_link = descriptor < 0 && errno == ELOOP && (flags & O_NOFOLLOW) != 0;
    const bool is_other = descriptor < 0 && (errno == ENXIO || errno == EISDIR);
    if (descriptor < 0 && !is_link && !is_other) throw errno_error(errno, operation, path);
    file->own(descriptor);
    struct stat info {};
    if (descriptor >= 0 && ::fstat(descriptor, &info) != 0) throw errno_error(errno, "stat", path);
    if (S_ISREG(info.st_mode)) return file;
    throw Error("invalid_file", is_link ? "a symbolic link" : "not a regular file")
        .with("path", path);
  }

  static std::unique_ptr<File> create_file(const std::string& path, int flags, mode_t mode) {
    auto file = std::make_unique<PosixFile>(path);
    flags |= O_RDWR | O_CREAT | O_CLOEXEC;
    const int descriptor = uninterrupted([&] { return ::open(path.c_str(), flags, mode); });
    if (descriptor < 0 && errno == EEXIST) throw target_exists(path);
    if (descriptor < 0) throw errno_error(errno, "create", path);
    file->own(descriptor);
    return file;
  }

  static void make_with_mode(const std::string& path, mode_t mode) {
    if (::mkdir(path.c_str(), mode) == 0) return;
    if (errno == EEXIST) throw target_exists(path);
    throw errno_error(errno, "make directory", path);
  }
};

class PosixClock final : public Clock {
 public:
  int64_t now_ns() override { return read(CLOCK_MONOTONIC); }
  int64_t wall_ns() override { return read(CLOCK_REALTIME); }

 private:
  static int64_t read(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
};

class PosixEntropy final : public Entropy {
 public:
  uint64_t next() override {
    uint64_t value = 0;
    if (getrandom(&value, sizeof value, 0) != sizeof value)
      throw errno_error(errno, "getrandom", "");
    return value;
  }
};

}  // namespace

Env& posix_env() {
  static PosixFiles files;
  static PosixClock clock;
  static PosixEntropy entropy;
  static Env env{files, clock, entropy};
  return env;
}

}  // namespace plait
