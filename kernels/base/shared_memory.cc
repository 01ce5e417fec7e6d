#include "kernels/base/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

class PosixSegment final : public SharedSegment {
 public:
  /// Made before its descriptor: nothing may fail between the opening and `own`.
  PosixSegment(std::string path, std::string name)
      : path_(std::move(path)), name_(std::move(name)) {}
  ~PosixSegment() override {
    if (data_ != MAP_FAILED) ::munmap(data_, static_cast<size_t>(bytes_));
    if (descriptor_ >= 0) ::close(descriptor_);
    if (is_linked_) ::unlink(path_.c_str());
  }
  PosixSegment(const PosixSegment&) = delete;
  PosixSegment& operator=(const PosixSegment&) = delete;

  void own(int descriptor, bool is_created) {
    descriptor_ = descriptor;
    is_linked_ = is_created;
  }

  void allocate(int64_t bytes) {
    // Beyond this limit the system would send a signal to the host.
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < static_cast<rlim_t>(bytes)) {
      throw Error("file_too_large", "the limit of the process for files is too small")
          .with("path", path_)
          .with("need", bytes)
          .with("limit", static_cast<int64_t>(limit.rlim_cur));
    }
    struct statvfs room {};
    const bool is_known = ::fstatvfs(descriptor_, &room) == 0;
    const int64_t have =
        is_known ? static_cast<int64_t>(room.f_bavail) * static_cast<int64_t>(room.f_frsize) : -1;
    int failure = EINTR;
    while (failure == EINTR) failure = ::posix_fallocate(descriptor_, 0, bytes);
    if (failure == 0) return;
    if (failure != ENOSPC) throw errno_error(failure, "allocate", path_);
    throw Error("no_space", "shared memory is too small")
        .with("path", path_)
        .with("need", bytes)
        .with("have", have);
  }

  void check_size(int64_t bytes) const {
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0) throw errno_error(errno, "stat", path_);
    if (S_ISREG(info.st_mode) && info.st_size == bytes) return;
    throw Error("invalid_file", "shared memory has another size")
        .with("path", path_)
        .with("want", bytes)
        .with("got", static_cast<int64_t>(info.st_size));
  }

  /// The descriptor is closed: the mapping alone keeps the memory.
  void map(int64_t bytes) {
    bytes_ = bytes;
    data_ = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                   descriptor_, 0);
    if (data_ == MAP_FAILED) throw errno_error(errno, "map", path_);
    ::close(std::exchange(descriptor_, -1));
  }

  void* data() override { return data_; }
  int64_t bytes() const override { return bytes_; }
  const std::string& name() const override { return name_; }
  void unlink() override {
    if (is_linked_) ::unlink(path_.c_str());
    is_linked_ = false;
  }

 private:
  const std::string path_, name_;
  int descriptor_ = -1;
  bool is_linked_ = false;
  void* data_ = MAP_FAILED;
  int64_t bytes_ = 0;
};

class PosixSharedMemory final : public SharedMemory {
 public:
  explicit PosixSharedMemory(std::string directory) : directory_(std::move(directory)) {}

  std::unique_ptr<SharedSegment> create(int64_t bytes) override {
    constexpr int kTries = 16;
    for (int i = 0; i < kTries; ++i) {
      const std::string name = "plait-" + std::to_string(posix_env().entropy.next());
      auto segment = std::make_unique<PosixSegment>(join_path(directory_, name), name);
      const int descriptor = ::open(join_path(directory_, name).c_str(),
                                    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
      if (descriptor < 0 && errno == EEXIST) continue;
      if (descriptor < 0) throw errno_error(errno, "create", join_path(directory_, name));
      segment->own(descriptor, true);
      segment->allocate(bytes);
      segment->map(bytes);
      return segment;
    }
    throw Error("io_error", "no free name for shared memory").with("path", directory_);
  }

  std::unique_ptr<SharedSegment> open(const std::string& name, int64_t bytes) override {
    if (name.empty() || name.find('/') != std::string::npos) {
      throw Error("argument", "no name of shared memory").with("name", name);
    }
    const std::string path = join_path(directory_, name);
    auto segment = std::make_unique<PosixSegment>(path, name);
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) throw errno_error(errno, "open", path);
    segment->own(descriptor, false);
    segment->check_size(bytes);
    segment->map(bytes);
    return segment;
  }

  void wait(std::atomic<uint32_t>* word, uint32_t value, int64_t timeout_ms) override {
    const int64_t limit = std::max<int64_t>(timeout_ms, 0);
    const timespec time{static_cast<time_t>(limit / 1000),
                        static_cast<long>(limit % 1000) * 1'000'000};
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, value, &time, nullptr, 0);
  }

  void wake(std::atomic<uint32_t>* word) override {
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr,
              0);
  }

 private:
  const std::string directory_;
};

}  // namespace

SharedMemory& posix_shared_memory() {
  static PosixSharedMemory memory("/dev/shm");
  return memory;
}

std::unique_ptr<SharedMemory> posix_shared_memory_at(const std::string& directory) {
  return std::make_unique<PosixSharedMemory>(directory);
}

}  // namespace plait
