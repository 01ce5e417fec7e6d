#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

class PosixFile final : public File {
 public:
  /// Made before its descriptor: nothing may fail between the opening and `own`.
  explicit PosixFile(std::string path) : path_(std::move(path)) {}
  ~PosixFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  void own(int descriptor) { descriptor_ = descriptor; }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  int64_t pread(void* data, int64_t bytes, int64_t offset) override {
    int64_t done = 0;
    while (done < bytes) {
      const ssize_t got = ::pread(descriptor_, static_cast<char*>(data) + done,
                                  static_cast<size_t>(bytes - done), offset + done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw errno_error(errno, "read", path_);
      if (got == 0) break;
      done += got;
    }
    return done;
  }

  void pwrite(const void* data, int64_t bytes, int64_t offset) override {
    int64_t done = 0;
    while (done < bytes) {
      const ssize_t put = ::pwrite(descriptor_, static_cast<const char*>(data) + done,
                                   static_cast<size_t>(bytes - done), offset + done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw errno_error(errno, "write", path_);
      done += put;
    }
  }

  void sync() override {
    if (::fsync(descriptor_) != 0) throw errno_error(errno, "sync", path_);
  }

  int64_t size() const override {
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0) throw errno_error(errno, "stat", path_);
    return info.st_size;
  }

  const std::string& path() const override { return path_; }

 private:
  int descriptor_ = -1;
  std::string path_;
};

class PosixFiles final : public Files {
 public:
  std::unique_ptr<File> open_read(const std::string& path) override {
    auto file = std::make_unique<PosixFile>(path);
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) throw errno_error(errno, "open", path);
    file->own(descriptor);
    struct stat info {};
    if (::fstat(descriptor, &info) != 0) throw errno_error(errno, "stat", path);
    if (!S_ISREG(info.st_mode))
      throw Error("invalid_file", "not a regular file").with("path", path);
    return file;
  }

  std::unique_ptr<File> create(const std::string& path, bool must_be_new) override {
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | (must_be_new ? O_EXCL : O_TRUNC);
    auto file = std::make_unique<PosixFile>(path);
    const int descriptor = ::open(path.c_str(), flags, 0666);
    if (descriptor < 0 && errno == EEXIST) {
      throw Error("target_exists", "the file exists already").with("path", path);
    }
    if (descriptor < 0) throw errno_error(errno, "create", path);
    file->own(descriptor);
    return file;
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

  void make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return;
    if (errno == EEXIST) throw Error("target_exists", "the path exists already").with("path", path);
    throw errno_error(errno, "make directory", path);
  }

  void sync_directory(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) throw errno_error(errno, "open directory", path);
    const int result = ::fsync(descriptor);
    const int failure = errno;
    ::close(descriptor);
    if (result != 0) throw errno_error(failure, "sync directory", path);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) throw errno_error(errno, "rename", to);
  }

  void rename_noreplace(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST) throw Error("target_exists", "the path exists already").with("path", to);
    throw errno_error(errno, "rename", to);
  }

  void unlink(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) throw errno_error(errno, "unlink", path);
  }

  void remove_directory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) throw errno_error(errno, "remove directory", path);
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
