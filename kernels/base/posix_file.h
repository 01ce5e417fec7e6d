// An open file of the running system, and what its files have in common.
#pragma once

#include <sys/statvfs.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait {

/// Repeats a system call for as long as a signal interrupts it.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

/// Space for a user without privileges; the largest number where the file system tells no bound.
int64_t available_bytes(const struct statvfs& room);

class PosixFile final : public File {
 public:
  /// Made before its descriptor: nothing may fail between the opening and `own`.
  explicit PosixFile(std::string path);
  ~PosixFile() override;
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;
  void own(int descriptor) { descriptor_ = descriptor; }

  int64_t pread(void* data, int64_t bytes, int64_t offset) override;
  std::unique_ptr<FileMapping> map(int64_t bytes, int64_t offset) override;
  void pwrite(const void* data, int64_t bytes, int64_t offset) override;
  void sync() override;
  void sync_data() override;
  void allocate(int64_t bytes) override;
  void close() override;
  bool try_lock_shared() override;
  bool try_lock_exclusive() override;
  int64_t size() const override;
  const std::string& path() const override { return path_; }

 private:
  bool try_lock(int operation);
  /// The error of errno; a lack of space also says `need` and `free`.
  Error space_error(const char* operation, int64_t need) const;

  int descriptor_ = -1;  ///< −1: closed
  std::string path_;
};

}  // namespace plait
