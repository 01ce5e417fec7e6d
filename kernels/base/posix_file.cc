#include "kernels/base/posix_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <utility>

namespace plait {
namespace {

/// Attempts at an allocation that signals interrupt.
constexpr int kAllocateTries = 16;

/// Beyond this limit of the process the system would send a signal that ends the host.
void require_file_size(int64_t end, const std::string& path) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  if (limit.rlim_cur == RLIM_INFINITY || static_cast<rlim_t>(end) <= limit.rlim_cur) return;
  throw Error("file_too_large", "the limit of the process for files is too small")
      .with("path", path)
      .with("need", end)
      .with("limit", static_cast<int64_t>(limit.rlim_cur));
}

/// Pages that hold what is asked for.
class PosixMapping final : public FileMapping {
 public:
  PosixMapping(void* pages, size_t bytes, size_t skipped)
      : pages_(pages), bytes_(bytes), skipped_(skipped) {}
  ~PosixMapping() override { ::munmap(pages_, bytes_); }
  PosixMapping(const PosixMapping&) = delete;
  PosixMapping& operator=(const PosixMapping&) = delete;
  const char* data() const override { return static_cast<const char*>(pages_) + skipped_; }

 private:
  void* pages_;
  size_t bytes_;
  size_t skipped_;  // before what was asked for
};

}  // namespace

int64_t available_bytes(const struct statvfs& room) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  const uint64_t unit = room.f_frsize, count = room.f_bavail;
  // No blocks at all: memory without a bound, or a file system that does not count.
  if (room.f_blocks == 0 || (unit != 0 && count > kMost / unit)) return kMost;
  return static_cast<int64_t>(count * unit);
}

PosixFile::PosixFile(std::string path) : path_(std::move(path)) {}

PosixFile::~PosixFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int64_t PosixFile::pread(void* data, int64_t bytes, int64_t offset) {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got = uninterrupted([&] {
      return ::pread(descriptor_, static_cast<char*>(data) + done,
                     static_cast<size_t>(bytes - done), offset + done);
    });
    if (got < 0) throw errno_error(errno, "read", path_);
    if (got == 0) break;
    done += got;
  }
  return done;
}

std::unique_ptr<FileMapping> PosixFile::map(int64_t bytes, int64_t offset) {
  struct stat info {};
  if (bytes < 1 || ::fstat(descriptor_, &info) != 0 || info.st_size < offset + bytes) {
    return nullptr;
  }
  const int64_t skipped = offset % ::sysconf(_SC_PAGESIZE);
  const auto size = static_cast<size_t>(bytes + skipped);
  void* pages = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, offset - skipped);
  if (pages == MAP_FAILED) return nullptr;
  try {
    return std::make_unique<PosixMapping>(pages, size, static_cast<size_t>(skipped));
  } catch (...) {
    ::munmap(pages, size);
    throw;
  }
}

void PosixFile::pwrite(const void* data, int64_t bytes, int64_t offset) {
  require_file_size(offset + bytes, path_);
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t put = uninterrupted([&] {
      return ::pwrite(descriptor_, static_cast<const char*>(data) + done,
                      static_cast<size_t>(bytes - done), offset + done);
    });
    if (put < 0) throw space_error("write", bytes - done);
    if (put == 0) throw errno_error(EIO, "write", path_);
    done += put;
  }
}

void PosixFile::sync() {
  if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0) throw space_error("sync", 0);
}

void PosixFile::sync_data() {
  if (uninterrupted([&] { return ::fdatasync(descriptor_); }) != 0) throw space_error("sync", 0);
}

void PosixFile::allocate(int64_t bytes) {
  require_file_size(bytes, path_);
  if (uninterrupted([&] { return ::ftruncate(descriptor_, bytes); }) != 0)
    throw space_error("allocate", bytes);
  // A file system in memory undoes all of it for a signal, so in a storm of signals this might
  // never end; without space set aside the writes are right as well.
  for (int tries = 0; bytes > 0 && tries < kAllocateTries; ++tries) {
    if (::fallocate(descriptor_, 0, 0, bytes) == 0) return;
    if (errno == EOPNOTSUPP || errno == ENOSYS) return;
    if (errno != EINTR) throw space_error("allocate", bytes);
  }
}

void PosixFile::close() {
  if (descriptor_ < 0) return;
  // The descriptor is free again whatever the result, an interrupted call included.
  const int result = ::close(std::exchange(descriptor_, -1));
  if (result != 0 && errno != EINTR) throw errno_error(errno, "close", path_);
}

bool PosixFile::try_lock_shared() { return try_lock(LOCK_SH); }

bool PosixFile::try_lock_exclusive() { return try_lock(LOCK_EX); }

int64_t PosixFile::size() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) throw errno_error(errno, "stat", path_);
  return info.st_size;
}

bool PosixFile::try_lock(int operation) {
  if (uninterrupted([&] { return ::flock(descriptor_, operation | LOCK_NB); }) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) return true;
  throw errno_error(errno, "lock", path_);
}

Error PosixFile::space_error(const char* operation, int64_t need) const {
  const int failure = errno;
  Error error = errno_error(failure, operation, path_);
  struct statvfs room {};
  if (failure != ENOSPC || ::fstatvfs(descriptor_, &room) != 0) return error;
  if (need > 0) return std::move(error).with("need", need).with("free", available_bytes(room));
  return std::move(error).with("free", available_bytes(room));
}

}  // namespace plait
